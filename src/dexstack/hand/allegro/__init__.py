"""The Allegro hand: its CAN protocol, bus, driver and bus guard."""
