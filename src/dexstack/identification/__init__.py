"""A world fitted to a recording: which masses, frictions and gains make MuJoCo move as the object
and the joints did."""
