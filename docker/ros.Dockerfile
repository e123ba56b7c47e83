# A ROS 2 workspace with the hand's bus, the camera, rviz and rqt. Build from the checkout's root:
#   docker build -f docker/ros.Dockerfile --build-arg ROS_DISTRO=jazzy -t dexstack-ros .
ARG ROS_DISTRO=kilted
FROM ros:${ROS_DISTRO}-ros-base
ARG ROS_DISTRO
RUN apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        can-utils python3-colcon-common-extensions usbutils \
        ros-${ROS_DISTRO}-control-msgs ros-${ROS_DISTRO}-diagnostic-msgs ros-${ROS_DISTRO}-rqt ros-${ROS_DISTRO}-rqt-common-plugins \
        ros-${ROS_DISTRO}-rqt-robot-monitor ros-${ROS_DISTRO}-rviz2 ros-${ROS_DISTRO}-trajectory-msgs ros-${ROS_DISTRO}-visualization-msgs \
    && rm -rf /var/lib/apt/lists/*
COPY . /ws/src/dexstack
# rclpy and the messages are the distribution's; what rosdep does not know comes from PyPI, into an environment that sees both
RUN /ws/src/dexstack/docker/install.sh --system --site-packages --venv /opt/dexstack/venv hardware,camera
RUN . /opt/ros/${ROS_DISTRO}/setup.sh && cd /ws && colcon build --packages-select dexstack
COPY docker/entrypoint.sh /entrypoint.sh
WORKDIR /ws
ENTRYPOINT ["/entrypoint.sh"]
CMD ["ros2", "launch", "dexstack", "mock.launch.py"]
