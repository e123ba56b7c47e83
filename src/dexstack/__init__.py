"""dexstack: contact-rich in-hand manipulation with ContactSDF, as a ROS-free library with thin ROS 2 nodes."""

__version__ = "0.1.0"
