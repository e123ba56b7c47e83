"""Which figures of which result docs/results.md shows: one entry per file in this folder."""

from __future__ import annotations

from experiments.results.engine_tables import HYDROELASTIC, LCP
from experiments.results.sections import Figures, Listing, Section, trials
from experiments.results.soft_tables import SOFT

_FITS = (
    ("plant", "plant"),
    ("by", "by"),
    ("fits", "fits"),
    ("longest [s]", "longest_s:.0f"),
    ("processor time, median [s]", "cpu_s:.0f"),
    ("residual held out, median", "?after:.2g"),
)
_FOUND = (
    ("plant", "plant"),
    ("by", "by"),
    ("unknown", "name"),
    ("median error", "median_error:.2g"),
    ("worst", "worst_error:.2g"),
    ("limit", "limit:g"),
    ("within", "within"),
    ("in the 90 % interval", "covered"),
    ("of", "of"),
)

BENCH = (
    Section(
        "mpc",
        "Time of contact detection and one plan",
        (
            Figures(
                (
                    ("plan, p50 [ms]", "results.solve_s.p50*1e3:.2f"),
                    ("plan, p99 [ms]", "results.solve_s.p99*1e3:.2f"),
                    ("detection, p50 [ms]", "results.detect_s.p50*1e3:.2f"),
                    ("both, p50 [ms]", "results.detect_and_solve_s.p50*1e3:.2f"),
                    ("both, p99 [ms]", "results.detect_and_solve_s.p99*1e3:.2f"),
                    ("plans", "results.solve_s.n"),
                    ("ended", "results.statuses"),
                    ("variables", "results.variables"),
                    ("active contacts, mean", "results.contacts.mean:.1f"),
                )
            ),
        ),
    ),
)

GRAPH = (
    Section(
        "graph_week",
        "Rollout after rollout in one bring-up, a node killed in every tenth",
        (
            Figures(
                (
                    (
                        "undisturbed rollouts that reached the goal",
                        "rate(results.reached, results.undisturbed)",
                    ),
                    ("… in the first half", "rate(results.first_half_reached, results.first_half)"),
                    ("… in the second", "rate(results.second_half_reached, results.second_half)"),
                    ("with a killed node", "rate(results.killed_reached, results.killed)"),
                    ("largest growth of a process (limit 5 %)", "results.worst_growth*100:.1f"),
                    ("measured from its rollout", "results.settled"),
                    ("processes left", "results.orphans"),
                    ("segments of shared memory left", "results.shared_memory_left"),
                    ("files of ports left", "results.ports_left"),
                )
            ),
        ),
    ),
    Section(
        "graph_streaks",
        "Any orientation in the whole graph, in real time",
        (
            Figures(
                (
                    ("goals in a row, mean", "results.consecutive.mean:.1f"),
                    ("… in simulated time", "results.trials_mean:.1f"),
                    ("median", "results.consecutive.median:g"),
                    ("fewest", "results.consecutive.min"),
                    ("most", "results.consecutive.max"),
                    ("a minute", "results.goals_per_minute:.1f"),
                    ("runs", "results.consecutive.n"),
                )
            ),
            Listing(
                "results.runs",
                (
                    ("seed", "seed"),
                    ("goals", "goals_reached"),
                    ("time [s]", "seconds:.0f"),
                    ("ended by", "phase"),
                    ("plans [Hz]", "rate_hz:.1f"),
                    ("real-time factor", "real_time_factor:.2f"),
                ),
            ),
        ),
    ),
    Section(
        "orientation_ablations",
        "Any orientation, one thing of the planner changed",
        (
            Listing(
                "results.rows",
                (
                    ("changed", "name"),
                    ("goals", "goals"),
                    ("goals a minute", "goals_per_minute:.1f"),
                    ("from", "goals_per_minute_interval[0]:.1f"),
                    ("to", "goals_per_minute_interval[1]:.1f"),
                    ("drops", "drops"),
                    ("… per goal, at least", "drops_per_goal[0]:.3f"),
                    ("at most", "drops_per_goal[1]:.3f"),
                    ("detours", "detours"),
                    ("runs", "runs"),
                ),
            ),
        ),
        "Every row from the same seeds, in simulated time. The interval is Garwood's, 95 %.",
    ),
    Section(
        "orientation_value",
        "How long a goal takes, learned from logged trials",
        (
            Figures(
                (
                    ("variance explained on trials left out", 'results.explained["the whole state"]:.2f'),
                    ("… by the error alone", 'results.explained["the error alone"]:.2f'),
                    ("difference", "results.gained:.2f"),
                    ("its standard error", "results.standard_error:.3f"),
                    ("trials", "results.trials"),
                    ("states", "results.states"),
                    ("drops", "results.drops"),
                )
            ),
        ),
    ),
    Section(
        "start_up",
        "From the command to the hand's first command",
        (
            Listing(
                "results.plants",
                (
                    ("plant", "plant"),
                    ("empty caches [s]", "cold_s:.1f"),
                    ("limit", "cold_limit_s"),
                    ("processor time [s]", "cold_processor_s:.1f"),
                    ("full caches, median [s]", "warm_s:.1f"),
                    ("worst", "warm_worst_s:.1f"),
                    ("limit", "warm_limit_s"),
                    ("n", "n"),
                ),
            ),
        ),
    ),
)

CONTACTSDF = (
    Section(
        "ipopt",
        "MPC beside IPOPT, under one cost",
        (
            Listing(
                "results.solvers",
                (
                    ("solver", "solver"),
                    ("p50 [ms]", "solve_s.p50*1e3:.2f"),
                    ("p99 [ms]", "solve_s.p99*1e3:.2f"),
                    ("n", "solve_s.n"),
                    ("over ours", "?ratio:.0f"),
                    ("cost, D-SDF, own goals", "cost.dsdf.near.median:.2f"),
                    ("cost, D-SDF, goals away", "cost.dsdf.away.median:.2f"),
                    ("cost, exact step, own goals", "cost.qp.near.median:.2f"),
                    ("cost, exact step, goals away", "cost.qp.away.median:.2f"),
                    ("ended", "statuses"),
                    ("without descent", "?no_descent"),
                ),
            ),
            Figures((("ours over IPOPT, cost with D-SDF, median", "results.cost_over_ipopt:.3f"),)),
        ),
        "Median cost of the plans, all judged by one function; *away* is with goals 30 mm and 40° from the object.",
    ),
    Section(
        "prediction",
        "One-step prediction of every model",
        (
            Listing(
                "results.models",
                (
                    ("predictor", "name"),
                    ("position, share of 'stays'", "relative.position:.2f"),
                    ("rotation", "relative.orientation:.2f"),
                    ("joints", "relative.joints:.2f"),
                ),
            ),
        ),
    ),
)

PERCEPTION = (
    Section(
        "perception",
        "The object's pose from rendered pictures",
        (
            Listing(
                "results.static",
                (
                    ("camera", "name"),
                    ("two faces, p50 [mm]", "two_faces.position_error_m.p50*1e3:.3f"),
                    ("p95 [mm]", "two_faces.position_error_m.p95*1e3:.3f"),
                    ("one face, p95 [rad]", "one_face.orientation_error_rad.p95:.4f"),
                    ("n", "two_faces.position_error_m.n"),
                    ("time, p99 [ms]", "pose_s.p99*1e3:.1f"),
                ),
            ),
            Figures(
                (
                    ("film: pictures", "results.film.frames"),
                    ("hidden", "results.film.hidden"),
                    ("wrong jumps", "results.film.wrong_jumps"),
                    ("error within its 95 % bound [share]", "results.film.within_bound:.3f"),
                    ("time per picture, p99 [ms]", "results.film.pose_s.p99*1e3:.1f"),
                )
            ),
        ),
    ),
)

BATCHES = (
    Listing(
        "results.rows",
        (
            ("who", "who"),
            ("scenes", "n"),
            ("steps per second, of all", "steps_per_s:.3g"),
            ("steps of each", "steps"),
            ("off MuJoCo's place [mm]", "off_m*1e3:.2g"),
            ("made and compiled in [s]", "ready_s:.1f"),
        ),
    ),
    Figures((("JAX on", "results.device"), ("threads", "results.threads"), ("MJX took part", "results.mjx"))),
)
"""Parts of a page about many scenes at once."""

ENGINES = (
    Section(
        "engines_palm",
        "The cube on the palm for a minute, all engines",
        (
            Listing(
                "results.plants",
                (
                    ("engine", "plant"),
                    ("step [ms]", "dt_s*1e3:g"),
                    ("drift [mm]", "drift_m*1e3:.3g"),
                    ("worst depth [mm]", "?depth_worst_m*1e3:.3g"),
                    ("mean depth [mm]", "?depth_mean_m*1e3:.3g"),
                    ("real time ×", "real_time_factor:.1f"),
                    ("reported", "trouble"),
                    ("reached", "reached"),
                ),
            ),
            Figures((("largest drift asked for [mm]", "results.limit_m*1e3:g"),)),
        ),
    ),
    Section(
        "engines_fingertip",
        "A fingertip under 10 N, all engines",
        (
            Listing(
                "results.rows",
                (
                    ("engine", "engine"),
                    ("depth [mm]", "depth_m*1e3:.3f"),
                    ("closed form of its law [mm]", "closed_form_m*1e3:.3f"),
                    ("reached", "reached"),
                ),
            ),
        ),
        "Negative: a gap.",
    ),
    Section(
        "engines_suite",
        "Scenes that physics decides, all engines",
        (
            Listing(
                "results.rows",
                (
                    ("scene", "scene"),
                    ("engine", "engine"),
                    ("claimed", "claimed"),
                    ("passed", "?reached"),
                    ("figure", "?figure:.2g"),
                    ("limit", "?limit:.2g"),
                    ("step [µs]", "?step_s*1e6:.0f"),
                    ("worst depth [µm]", "?depth_worst_m*1e6:.1f"),
                    ("mean depth [µm]", "?depth_mean_m*1e6:.1f"),
                    ("energy error [J]", "?energy_error_j:.1e"),
                ),
            ),
        ),
        "One limit per scene for all engines, in `experiments/engines/scenes.py` with what each figure is.",
    ),
    Section("engines_batches", "Many scenes at once, beside MuJoCo's own rollout and MJX", BATCHES),
    Section(
        "engines_batches_gpu",
        "Many scenes at once, on a GPU",
        BATCHES,
        "`soft` and MJX compute on the GPU, the former in double precision, the latter in single; MuJoCo has the processor's cores.",
    ),
    Section(
        "engines_replays",
        "Replays with the same bits",
        (
            Listing(
                "results.rows", (("scene", "scene"), ("engine", "engine"), ("same", "same"), ("of", "of"))
            ),
        ),
    ),
    Section(
        "engines_foreign",
        "Robots from other packages, all engines",
        (
            Listing(
                "results.engines",
                (
                    ("engine", "engine"),
                    ("loaded", "loaded"),
                    ("free motion right", "moved_rightly"),
                    ("ran", "ran"),
                    ("of", "of"),
                ),
            ),
            Listing(
                "results.rows",
                (
                    ("model", "model"),
                    ("engine", "engine"),
                    ("loaded", "loaded"),
                    ("free motion off by", "?error:.1e"),
                    ("MuJoCo's own", "?mujoco_error:.1e"),
                    ("ran", "?ran"),
                    ("real time ×", "?real_time_factor:.1f"),
                    ("said", "said"),
                ),
            ),
        ),
        "Free motion: largest difference of a coordinate after 0.5 s from MuJoCo's Runge–Kutta at a twentieth of the step.",
    ),
)

_CELLS = Listing(
    "results.cells",
    (
        ("θ of", "source"),
        ("share", "share:g"),
        ("on", "plant"),
        ("succeeded", "rate(success_rate, trials)"),
        ("dropped", "dropped"),
        ("median time [s]", "reached_s.median:.2f"),
        ("orientation error, mean [rad]", "orientation_error_rad.mean:.3f"),
        ("deepest overlap, mean [mm]", "overlap_m.mean*1e3:.2g"),
        ("held-out loss", "prediction_loss:.3g"),
    ),
)
_CARRIED = Figures(
    (
        ("pairs that keep 95 % of the success of the plant's own θ", "results.crossed_kept"),
        ("of", "results.crossed"),
        ("mixtures as good as the best single θ", "results.mixed_as_good"),
        ("of", "results.mixed"),
        ("mixtures worse by intervals that do not overlap", "results.mixed_surely_worse"),
    )
)
_TIME = Figures((("time of all, learning included, on two cores [min]", "results.spent[0].wall_s/60:.1f"),))
_SPENT = Listing(
    "results.spent",
    (("processes", "jobs"), ("of Ray", "ray"), ("time of all, learning included [s]", "wall_s:.0f")),
)
_CHOSEN = Listing(
    "results.choosing",
    (
        ("θ of", "source"),
        ("share", "share:g"),
        ("mean time of the trials that choose [s]", "seconds:.2f"),
        ("saved against the models' own θ [s]", "saved:.2f"),
        ("standard error of that [s]", "error:.2f"),
    ),
)

TRANSFER = (
    Section(
        "transfer_palm",
        "θ learned on one plant, tried on another",
        (_CELLS, _CARRIED, _TIME, _CHOSEN),
        "Share: what trials left of what was learned. Where it is 0, θ and so the trials are the models' own.",
    ),
    Section("transfer_palm_learned", "The same with all that was learned", (_CELLS, _CARRIED)),
    Section("transfer_one_process", "A small matrix in one process", (_SPENT, _CELLS)),
    Section("transfer_two_ray", "The same matrix in two processes of Ray", (_SPENT, _CELLS)),
    trials("palm_delayed", "Turns on the palm, commands 60 ms late", "The planner counts on no delay."),
    trials(
        "palm_delayed_known",
        "Turns on the palm, commands 60 ms late and known to be",
        "The planner counts on 60 ms, `command_delay`.",
    ),
    Section(
        "identification_recover",
        "Hidden worlds from a minute of recording",
        (Listing("results.fits", _FITS), Listing("results.rows", _FOUND)),
        "`mujoco.sysid` has the same windows and rollouts, in the first of the worlds.",
    ),
    *(
        Section(
            f"identification_hidden{suffix}",
            f"Hidden plants before and after a minute of recording, {planner}",
            (Listing("results.rates", (("θ", "name"), ("succeeded", "rate(succeeded, trials)"))),),
        )
        for suffix, planner in (("", "gauss_newton"), ("_sampling", "sampling"))
    ),
)

SECTIONS: tuple[Section, ...] = (
    *GRAPH,
    *BENCH,
    *CONTACTSDF,
    *PERCEPTION,
    *TRANSFER,
    *ENGINES,
    *HYDROELASTIC,
    *LCP,
    *SOFT,
)
"""In the page's order. A result without a section is shown at the end, by the numbers on its
top."""
