"""Which figures of the results about our own engines docs/results.md shows."""

from __future__ import annotations

from experiments.results.sections import Figures, Listing, Section

_STEP = Listing(
    "results.levels",
    (
        ("motion", "motion"),
        ("faces", "faces:.0f"),
        ("grip [N]", "grip_N:g"),
        ("ours [µs]", "ours_s*1e6:.0f"),
        ("Drake [µs]", "peer_s*1e6:.0f"),
        ("Drake / ours", "ratio:.1f"),
        ("Newton iterations", "newton_iterations:.1f"),
        ("worst residual", "worst_residual:.0e"),
        ("bars' height apart [mm]", "height_difference_m*1e3:.3f"),
    ),
)
_MOTIONS = "A settled grip, a bar that is dragged through it, and fingers that close on the bar."
_CHECKS = (("check", "name"), ("checked", "checked"), ("failed", "failed"), ("worst", "worst:.1e"))
_DISTANCES = (
    ("configurations checked", "results.intersections.checked"),
    ("intersections", "results.intersections.failed"),
    ("smallest distance [m]", "results.intersections.worst:.1e"),
)

HYDROELASTIC = (
    Section(
        "hydroelastic_surfaces",
        "Contact surfaces beside Drake's",
        (
            Listing(
                "results.cases",
                (
                    ("case", "name"),
                    ("poses", "poses"),
                    ("ours [µs]", "ours_s.p50*1e6:.1f"),
                    ("Drake [µs]", "?peer_s.p50*1e6:.1f"),
                    ("Drake / ours", "?ratio:.1f"),
                ),
            ),
            Listing("results.checks", _CHECKS),
            Figures(
                (("Drake / ours, geometric mean", "results.ratio:.1f"), ("Drake", "results.peer.version"))
            ),
        ),
    ),
    Section("hydroelastic_step", "A whole step beside Drake's, lagged friction in both", (_STEP,), _MOTIONS),
    Section("hydroelastic_step_sap", "A whole step beside Drake's, SAP in both", (_STEP,), _MOTIONS),
    Section(
        "hydroelastic_coin",
        "The coin that slides and spins to rest",
        (
            Listing("results.ratios", (("start ε₀", "start:g"), ("end ε", "end:.4f"), ("steps", "steps"))),
            Figures(
                (
                    ("this fan of 152 triangles, integrated", "results.reference:.5f"),
                    ("published", "results.published_reference"),
                    ("worst from it [%]", "results.worst_from_reference*100:.2f"),
                    ("order of the error in the step", "results.order_in_time:.2f"),
                    ("order of the error in the mesh", "results.order_in_mesh:.2f"),
                    ("steps unsolved", "results.unsolved"),
                )
            ),
            Listing(
                "results.curves",
                (
                    ("segments", "segments"),
                    ("rings", "rings"),
                    ("start ε₀", "start:g"),
                    ("ε after four decades", "?end:.4f"),
                    ("worst from the mesh's curve [%]", "?from_mesh/0.01:.2f"),
                    ("the mesh's from the disk's [%]", "mesh_from_disk/0.01:.2f"),
                ),
            ),
        ),
        "A fan has its points on one ring and forgets its start. A disk with points all over still shows where it came from: whole curves "
        "of ε over the speed, through four decades of it, beside the integrated equations of the same mesh and of the even disk.",
    ),
    Section(
        "hydroelastic_sinusoid",
        "Sinusoids pressed into a layer: the paper's figure is not reproduced",
        (
            Figures(
                (
                    ("largest difference from the closed form", "results.closed_form_error:.1e"),
                    (
                        "field under our finite elements, largest amplitude [%]",
                        "results.under_at_depth*100:.1f",
                    ),
                    ("the paper's, under its own [%]", "results.published_under_at_depth*100:.0f"),
                    ("figure reproduced", "results.figure_reproduced"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_convergence",
        "Sphere on a plane under refinement",
        (
            Figures(
                (
                    ("relative error, finest mesh", "results.relative_error[3]:.1e"),
                    ("order, last halving", "results.order[2]:.2f"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_fuzz",
        "What must hold in any pose",
        (Listing("results.checks", _CHECKS), Figures((("poses", "results.poses"),))),
    ),
    Section("hydroelastic_grip", "A spatula pinched beside its centre of mass"),
    Section(
        "hydroelastic_thin",
        "A ball through a soft sheet's mid-plane",
        (
            Figures(
                (
                    ("reported from a depth of [mm]", "results.overrun_from_m*1e3:.3f"),
                    ("expected from [mm]", "results.expected_from_m*1e3:.3f"),
                )
            ),
        ),
    ),
    Section("hydroelastic_scaling", "Time against the number of faces"),
    Section(
        "hydroelastic_drop",
        "Energy over bounces, error-controlled",
        (
            Figures(
                (
                    ("ball: worst drift of the energy", "results.ball.worst_drift:.1e"),
                    ("dumbbell: worst drift of the energy", "results.dumbbell.worst_drift:.1e"),
                    ("bounces each", "results.bounces"),
                )
            ),
        ),
    ),
    Section(
        "hydroelastic_solver",
        "Residual of the convex solver on every step",
        (
            Listing(
                "results.scenes",
                (
                    ("scene", "scene"),
                    ("scheme", "scheme"),
                    ("steps", "steps"),
                    ("worst residual", "worst_residual:.0e"),
                    ("unsolved", "unsolved"),
                    ("unsettled", "unsettled"),
                ),
            ),
        ),
    ),
)

LCP = (
    Section(
        "lcp_random",
        "Solvers on random frictional LCPs",
        (
            Listing(
                "results.solvers",
                (
                    ("solver", "name"),
                    ("problems", "checked"),
                    ("invalid", "failed"),
                    ("said to be unsolved", "rate(unsolved, checked)"),
                    ("worst residual", "worst:.0e"),
                    ("p50 [µs]", "solve_s.p50*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_balls",
        "One ball aims another",
        (
            Figures(
                (
                    ("distance from the target, continuous time [m]", "results.position_error_m:.1e"),
                    ("iterations", "results.iterations"),
                    ("rollouts of Nelder–Mead to the same distance", "results.zeroth_order_rollouts"),
                    ("20 steps and the gradient by start state and controls [µs]", "results.ours_s*1e6:.0f"),
                    ("its error", "results.gradient_error:.1e"),
                    ("Nimble's compiled part, the same [µs]", "results.peer_s*1e6:.0f"),
                    ("its error", "results.peer_gradient_error:.1e"),
                    ("Nimble / ours", "results.ratio:.2f"),
                    ("Nimble's ball, distance from the target [m]", "results.peer_error_m:.1e"),
                    ("balls of 320 triangles, distance [m]", "results.polygon_balls_error_m:.1e"),
                    *_DISTANCES,
                )
            ),
        ),
    ),
    Section(
        "lcp_impacts",
        "Many impacts at one instant",
        (
            Listing(
                "results.runs",
                (
                    ("scene", "name"),
                    ("scenes", "scenes"),
                    ("impacts", "impacts"),
                    ("change of momentum, share", "momentum:.0e"),
                    ("gain of energy in an impact, at most", "energy_gain:.0e"),
                    ("ended by their number", "ended_by_count"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_cubes",
        "A cube slides into another",
        (
            Figures(
                (
                    ("friction's error before the impact [m/s]", "results.friction_error_before:.1e"),
                    ("after it [m/s]", "results.friction_error_after:.1e"),
                    ("speed at the end [m/s]", "results.speed_at_end:.1e"),
                    *_DISTANCES,
                )
            ),
        ),
    ),
    Section(
        "lcp_bounce",
        "Height after an elastic bounce",
        (Figures((("error of the slope −1", "results.slope_error:.1e"), *_DISTANCES)),),
    ),
    Section(
        "lcp_bowling",
        "A ball into ten pins",
        (
            Figures(
                (
                    ("pins fallen", "results.fallen"),
                    ("energy left [%]", "results.energy_left*100:.1f"),
                    *_DISTANCES,
                )
            ),
        ),
    ),
    Section("lcp_plate", "A gripper lifts plates"),
    Section(
        "lcp_franka",
        "An arm with its meshes lifts plates",
        (
            Listing(
                "results.rows",
                (
                    ("plate [mm]", "plate_m*1e3:g"),
                    ("force [N]", "clamp_n:g"),
                    ("engine", "engine"),
                    ("held", "held"),
                    ("risen [mm]", "risen_m*1e3:.1f"),
                    ("slip [mm]", "slip_m*1e3:.3f"),
                    ("turn [mrad]", "turn_rad*1e3:.3f"),
                    ("worst depth [µm]", "depth_worst_m*1e6:.1f"),
                    ("step [µs]", "step_s*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_rest",
        "A box and a stack of five at rest",
        (
            Listing(
                "results.runs",
                (
                    ("scene", "name"),
                    ("steps", "steps"),
                    ("sub-steps per step", "substeps_per_step:.4f"),
                    ("drift [m]", "drift_m:.1e"),
                    ("energy above the start [J]", "energy_gain_J:.1e"),
                    ("step [µs]", "step_s*1e6:.0f"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_intersections",
        "Distances at every sub-step, by coal",
        (
            Listing(
                "results.checks",
                (
                    ("experiment", "name"),
                    ("scenes", "scenes"),
                    ("configurations", "checked"),
                    ("scenes with intersections", "failed"),
                    ("smallest distance [m]", "worst:.1e"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_overlaps",
        "Bodies that start inside each other",
        (
            Listing(
                "results.runs",
                (
                    ("bodies", "name"),
                    ("scenes", "scenes"),
                    ("parted", "parted"),
                    ("refused by name", "refused"),
                    ("gained energy", "energy"),
                    ("deeper than a push allows", "fell"),
                    ("step refused", "failed"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_palm",
        "The cube on the palm for a minute, lcp alone",
        (
            Listing(
                "results.plants",
                (
                    ("engine", "plant"),
                    ("step [ms]", "dt_s*1e3:g"),
                    ("drift [mm]", "drift_m*1e3:.3g"),
                    ("real time ×", "real_time_factor:.1f"),
                    ("reported", "trouble"),
                    ("reached", "reached"),
                ),
            ),
        ),
    ),
    Section(
        "lcp_sweep",
        "What a gradient costs",
        (
            Listing(
                "results.runs",
                (
                    ("rollout", "name"),
                    ("forward [ms]", "forward_s*1e3:.1f"),
                    ("value and gradient [ms]", "both_s*1e3:.1f"),
                    ("forward passes", "passes:.1f"),
                    ("per step, more than the shortest [%]", "growth*1e2:.0f"),
                    ("largest derivative", "largest:.0e"),
                    ("off the replay", "off_replay:.0e"),
                    ("off differences", "off_differences:.0e"),
                    ("compared by q", "compared_q"),
                    ("by v", "compared_v"),
                    ("by τ", "compared_tau"),
                    ("of", "tried"),
                ),
            ),
        ),
    ),
)
