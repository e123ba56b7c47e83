"""The engines without the robot stack: a box dropped on a slope, in every engine that is installed."""

import dexengines

SCENE = """<mujoco>
  <option timestep="0.002" gravity="1.7 0 -9.66"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="box" pos="0 0 0.055">
      <freejoint/>
      <geom name="box" type="box" size="0.05 0.05 0.05" mass="0.5" friction="0.5"/>
    </body>
  </worldbody>
  <custom><numeric name="contact_modulus:box" data="1e6"/></custom>
</mujoco>
"""

if __name__ == "__main__":
    import mujoco

    for engine in dexengines.ENGINES:
        try:
            scene = dexengines.load(mujoco.MjSpec.from_string(SCENE), engine)
        except dexengines.EngineError as error:
            print(f"{engine}: {error}")
            continue
        state = scene.reset()
        while state.time < 1.0:
            state = scene.step(state)
        force = sum(c.force_W if c.body_b == "box" else -c.force_W for c in scene.contacts(state))
        print(f"{engine}: the box moved {1e3 * state.q[0]:.1f} mm; force of the floor {force.round(2)} N")
