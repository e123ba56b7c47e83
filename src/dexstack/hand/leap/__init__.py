"""The LEAP hand: its Dynamixel protocol, serial line and driver."""
