"""Which figures of the results about the soft engine docs/results.md shows."""

from __future__ import annotations

from experiments.results.sections import Figures, Listing, Section

SOFT = (
    Section(
        "soft_speed",
        "A step of the pushed T beside MuJoCo and MJX",
        (
            Listing(
                "results.cases",
                (
                    ("case", "name"),
                    ("compile [s]", "compile_s:.1f"),
                    ("in a scan [µs]", "scan_s.p50*1e6:.1f"),
                    ("ours / MuJoCo", "mujoco_ratio:.2f"),
                    ("MJX / ours", "?mjx_ratio:.1f"),
                    ("wrench off, of the load", "wrench_error:.0e"),
                    ("called [µs]", "call_s.p50*1e6:.0f"),
                    ("T off MuJoCo's [mm]", "end_difference_m*1e3:.2f"),
                ),
            ),
            Listing(
                "results.peers",
                (
                    ("peer", "name"),
                    ("compile [s]", "compile_s:.1f"),
                    ("in a scan [µs]", "scan_s.p50*1e6:.1f"),
                    ("called [µs]", "call_s.p50*1e6:.0f"),
                ),
            ),
        ),
        "MuJoCo in C is the faster engine on this scene, in double precision; it gives no derivatives.",
    ),
    Section(
        "soft_push",
        "Where the pushed T ends, against MuJoCo",
        (
            Listing(
                "results.cases",
                (
                    ("law", "law"),
                    ("method", "method"),
                    ("points", "points"),
                    ("step [ms]", "step_s*1e3:g"),
                    ("off [cm]", "?mean_m*100:.1f"),
                    ("off [°]", "?mean_rad*57.2958:.1f"),
                    ("thrown or diverged, of 5", "lost"),
                    ("the paper's [cm]", "?published_m*100:.1f"),
                    ("reached", "?reached"),
                ),
            ),
        ),
    ),
    Section(
        "soft_push_to_goal",
        "A T pushed to a goal",
        (
            Listing(
                "results.rows",
                (
                    ("plans by", "name"),
                    ("arrived", "rate(arrived, starts)"),
                    ("pushes", "pushes:.1f"),
                    ("processor time a push [s]", "cpu_s:.2f"),
                    ("model's steps a push", "steps:.0f"),
                    ("off [mm]", "position_error_m*1e3:.1f"),
                    ("off [°]", "turn*57.2958:.1f"),
                ),
            ),
        ),
        "Means over start poses. `differences` and `cem` plan with MuJoCo, the plant itself; `gradient` with the soft engine.",
    ),
    Section(
        "soft_identify",
        "A T from a recording",
        (
            Listing(
                "results.rows",
                (
                    ("fitted by", "by"),
                    ("reached", "rate(reached, cases)"),
                    ("mass off [%]", "mass*100:.1f"),
                    ("largest", "worst_mass*100:.1f"),
                    ("friction off [%]", "friction*100:.1f"),
                    ("largest", "worst_friction*100:.1f"),
                    ("centre off [mm]", "centre_m*1e3:.1f"),
                    ("largest", "worst_centre_m*1e3:.1f"),
                    ("processor time [s]", "cpu_s:.1f"),
                    ("rollouts", "rollouts:g"),
                    ("derivatives", "derivatives:g"),
                ),
            ),
        ),
        "Medians. `derivatives` and `differences` fit through the soft engine, `mujoco` through the plant itself, by differences.",
    ),
    Section(
        "soft_near_set",
        "What is near against all points and planes",
        (
            Listing(
                "results.rows",
                (
                    ("paths", "scene"),
                    ("how many", "paths"),
                    ("states", "states"),
                    ("of these touching", "touching"),
                    ("wrench off", "wrench:.0e"),
                    ("derivative off", "derivative:.0e"),
                    ("differences off", "differences:.0e"),
                    ("second derivative off", "second:.1e"),
                    ("its differences off", "second_differences:.0e"),
                ),
            ),
            Listing(
                "results.rows",
                (
                    ("many paths", "scene"),
                    ("how many", "many_paths"),
                    ("states that touch", "many_touching"),
                    ("wrench off what is near to 1e-9", "many_wrench:.0e"),
                ),
            ),
            Figures(
                (
                    ("pushed T, states on its outline", "results.states"),
                    ("its wrench off", "results.outline:.0e"),
                )
            ),
        ),
        "The worst of all, as shares of the load.",
    ),
    Section(
        "soft_creep",
        "Creep of a cube at rest on a slope",
        (
            Listing(
                "results.cases",
                (
                    ("slope [°]", "slope_deg:g"),
                    ("v_s [m/s]", "v_s:g"),
                    ("in a minute [mm]", "creep_m*1e3:.3f"),
                    ("v_s r/√(1 − r²) [mm]", "formula_m*1e3:.3f"),
                ),
            ),
        ),
    ),
    Section(
        "soft_gradient",
        "Value and gradient of 50 steps beside MuJoCo's derivatives",
        (
            Listing(
                "results.cases",
                (
                    ("points", "points"),
                    ("Ts", "bodies"),
                    ("forward [ms]", "forward_s*1e3:.2f"),
                    ("value and gradient [ms]", "gradient_s*1e3:.2f"),
                    ("forward passes", "passes:.1f"),
                    ("asked", "asked.passes"),
                    ("off", "error:.0e"),
                    ("MuJoCo's [ms]", "mujoco_gradient_s*1e3:.1f"),
                    ("off", "mujoco_error:.0e"),
                    ("times faster", "faster:.1f"),
                    ("asked", "asked.faster"),
                ),
            ),
        ),
        "Off: largest error along random directions, against differences of whole rollouts of the same engine.",
    ),
    Section(
        "soft_weights",
        "Anisotropic weights, and top-K points",
        (
            Listing(
                "results.cases",
                (
                    ("β", "normal_weight"),
                    ("distance off, rms [mm]", "distance_m*1e3:.1f"),
                    ("at most", "distance_max_m*1e3:.1f"),
                    ("T off MuJoCo's [mm]", "?end_difference_m*1e3:.1f"),
                    ("derivative off", "?derivative:.0e"),
                ),
            ),
            Listing(
                "results.top",
                (("tilt [°]", "tilt_deg"), ("top-4 points from each other [mm]", "spread_m*1e3:.1f")),
            ),
        ),
        "Where the T's place is missing the explicit step diverges.",
    ),
    Section("soft_isosurfaces", "Soft distance of a box"),
    Section(
        "soft_force_map",
        "Force between two spheres",
        (
            Figures(
                (
                    (
                        "largest second difference over the largest force, soft",
                        "results.second_difference.soft:.3f",
                    ),
                    ("MuJoCo", "results.second_difference.mujoco:.3f"),
                )
            ),
        ),
    ),
    Section("soft_flatness", "Time from one to eight active contacts"),
    Section("soft_growth", "Growth with points and bodies"),
)
