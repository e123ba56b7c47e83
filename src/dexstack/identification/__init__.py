"""Identification of a plant: mass, friction, motors and delay fitted to a recording through rollouts of
a simulated plant."""
