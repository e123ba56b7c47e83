# Simulation and the emulated hand on plain Debian: ROS 2 comes from PyPI. Build from the checkout's root:
#   docker build -f docker/sim.Dockerfile -t dexstack-sim .
#   docker run --rm -it -v "$PWD/results:/results" dexstack-sim up sim
FROM debian:12-slim
COPY . /opt/dexstack/src
RUN /opt/dexstack/src/docker/install.sh --system --venv /opt/dexstack/venv ros,hardware,camera
ENV PATH=/opt/dexstack/venv/bin:$PATH
VOLUME /results
WORKDIR /
ENTRYPOINT ["dexstack"]
CMD ["up", "sim"]
