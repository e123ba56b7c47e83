"""One scene file through several engines: a box is thrown over a floor, slides and stops."""

import sys

from dexengines import load

SCENE = """<mujoco>
  <option timestep="0.001" cone="elliptic" impratio="10"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" friction="0.01"/>
    <body name="box" pos="0 0 0.05">
      <freejoint/>
      <geom name="box" type="box" size="0.05 0.05 0.05" mass="0.5" friction="0.4"/>
    </body>
  </worldbody>
  <custom><numeric name="contact_modulus:box" data="1e6"/></custom>
</mujoco>
"""

if __name__ == "__main__":
    folder, *engines = sys.argv[1:]
    path = f"{folder}/scene.xml"
    with open(path, "w") as file:
        file.write(SCENE)
    for engine in engines or ("mujoco", "hydroelastic"):
        scene = load(path, engine)
        state = scene.reset()
        v = state.v.copy()
        v[0] = 1.0
        state = state._replace(v=v)
        while state.time < 0.6:
            state = scene.step(state)
        force = sum(c.force_W if c.body_b == "box" else -c.force_W for c in scene.contacts(state))
        print(f"{engine}: the box slid {100 * state.q[0]:.1f} cm; the floor bears it with {force[2]:.2f} N")
