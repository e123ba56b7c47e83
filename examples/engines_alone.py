"""The engines without the robot stack: a sliding ball starts to roll, in every installed engine."""

import mujoco

import dexengines

SCENE = """<mujoco>
  <option timestep="0.001"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="ball" pos="0 0 0.05">
      <freejoint/>
      <geom name="ball" type="sphere" size="0.05" mass="0.5" friction="0.5"/>
    </body>
  </worldbody>
</mujoco>
"""

MATERIALS = {"ball": {"resolution": 0.004, "stiffness": 1e5}}

if __name__ == "__main__":
    for engine in dexengines.ENGINES:
        try:
            scene = dexengines.load(mujoco.MjSpec.from_string(SCENE), engine, materials=MATERIALS)
        except dexengines.EngineError as error:  # its extra is not installed
            print(f"{engine}: {error}")
            continue
        state = scene.reset()
        velocity = state.v.copy()
        velocity[0] = 1.0
        state = state._replace(v=velocity)
        while state.time < 0.3:
            state = scene.step(state)
        (contact,) = scene.contacts(state)
        print(f"{engine}: rolls at {state.v[0]:.2f} m/s; the floor carries {abs(contact.force_W[2]):.2f} N")
