"""Diagrams of a run as a self-contained HTML file, with zoom and a readout of values."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.files import write_text
from dexstack.report.plot import TOLERANCE, curves

DIGITS = 5
"""Significant digits of the values in the file."""
_COLOURS = ("#1f5fa8", "#d61e82", "#3a9d5d", "#e08a1e", "#7a5fc0", "#b03030", "#2aa0a8", "#7a7a7a")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(title)s</title><style>
body{font:14px system-ui,sans-serif;margin:0 auto;max-width:70em;padding:0 .6em 2em}
figure{display:inline-block;margin:0 1em 0 0}figcaption{font-weight:600}
h1{font-size:1.2em}h2{font-size:1em;margin:1em 0 .2em}
canvas{width:100%%;height:11em;touch-action:pan-y;display:block}
.key{font-size:.85em;min-height:1.3em}.key span{margin-right:1em;white-space:nowrap}
</style></head><body><h1>%(title)s</h1>%(head)s
<p>Drag sideways to zoom, double-click to reset.</p><div id="charts"></div>
<script id="data" type="application/json">%(data)s</script><script>
const charts=JSON.parse(document.getElementById("data").textContent),all=[],LEFT=56,BOTTOM=18;
const whole=[Math.min(...charts.map(c=>c.t[0])),Math.max(...charts.map(c=>c.t[c.t.length-1]))];
let view=[...whole],at=null,from=null;
for(const c of charts){
  const box=document.createElement("section"),head=document.createElement("h2");
  const key=document.createElement("div");
  const canvas=document.createElement("canvas");head.textContent=c.title;key.className="key";
  box.append(head,canvas,key);document.getElementById("charts").append(box);all.push({c,canvas,key});
  const time=e=>{const r=canvas.getBoundingClientRect();
    return view[0]+(e.clientX-r.left-LEFT)/Math.max(1,r.width-LEFT)*(view[1]-view[0])};
  canvas.onpointermove=e=>{at=time(e);draw()};canvas.onpointerleave=()=>{at=null;draw()};
  canvas.onpointerdown=e=>{from=time(e)};
  canvas.onpointerup=e=>{const to=time(e);
    if(from!==null&&Math.abs(to-from)>.02*(view[1]-view[0]))
      view=[Math.max(whole[0],Math.min(from,to)),Math.min(whole[1],Math.max(from,to))];
    from=null;draw()};
  canvas.ondblclick=()=>{view=[...whole];draw()};
}
function draw(){for(const {c,canvas,key} of all){
  const ratio=window.devicePixelRatio||1,w=canvas.clientWidth,h=canvas.clientHeight,g=canvas.getContext("2d");
  canvas.width=w*ratio;canvas.height=h*ratio;g.scale(ratio,ratio);g.font="11px system-ui";
  let low=Infinity,high=-Infinity;
  for(const s of c.series)c.t.forEach((t,i)=>{const y=s.y[i];
    if(y!==null&&t>=view[0]&&t<=view[1]){low=Math.min(low,y);high=Math.max(high,y)}});
  if(c.zero)low=Math.min(low,0);if(!(low<Infinity)){low=0;high=1}
  const pad=(high-low)*.06||.5,X=t=>LEFT+(t-view[0])/(view[1]-view[0]||1)*(w-LEFT);
  high+=pad;if(!c.zero)low-=pad;
  const Y=y=>(h-BOTTOM)*(1-(y-low)/(high-low));
  if(c.band){const top=Y(Math.min(c.band,high));g.fillStyle="#3a9d5d33";
    g.fillRect(LEFT,top,w-LEFT,Y(Math.max(low,0))-top)}
  g.strokeStyle="#ddd";g.fillStyle="#555";g.lineWidth=1;
  for(let k=0;k<=4;k++){const y=low+(high-low)*k/4,t=view[0]+(view[1]-view[0])*k/4;
    g.beginPath();g.moveTo(LEFT,Y(y));g.lineTo(w,Y(y));g.stroke();
    g.textAlign="right";g.fillText(+y.toPrecision(3),LEFT-4,Math.max(9,Y(y)+3));
    g.textAlign=k==4?"right":"center";g.fillText(t.toFixed(2)+" s",X(t),h-4)}
  g.save();g.beginPath();g.rect(LEFT,0,w-LEFT,h-BOTTOM);g.clip();
  for(const s of c.series){g.strokeStyle=g.fillStyle=s.colour;g.lineWidth=1.5;
    g.setLineDash(s.dash?[6,4]:[]);g.beginPath();let pen=false;
    c.t.forEach((t,i)=>{const y=s.y[i];if(y===null){pen=false;return}
      if(c.dots)g.fillRect(X(t)-1,Y(y)-1,2,2);else if(pen)g.lineTo(X(t),Y(y));else g.moveTo(X(t),Y(y));
      pen=true});
    g.stroke()}
  g.setLineDash([]);if(at!==null){g.strokeStyle="#888";g.beginPath();g.moveTo(X(at),0);g.lineTo(X(at),h);g.stroke()}
  g.restore();
  let i=-1;if(at!==null){i=c.t.findIndex(t=>t>=at);if(i<0)i=c.t.length-1}
  key.replaceChildren(...c.series.map(s=>{const e=document.createElement("span");e.style.color=s.colour;
    e.textContent=s.name+(i>=0&&s.y[i]!==null?" "+s.y[i]:"");return e}))}}
addEventListener("resize",draw);draw();
</script></body></html>
"""


def write_page(
    path: Path,
    recording: Mapping[str, np.ndarray],
    tolerance: float = TOLERANCE,
    joint_names: Sequence[str] = (),
    title: str = "run",
    head: str = "",
) -> Path:
    """Draw yaw, errors, joints with their commands, contacts and solve times against time.

    Args:
        path: the file; its folder exists.
        recording: as for :func:`~dexstack.report.run.write_run`, with one goal per sample.
        tolerance: orientation error that counts as reached [rad].
        joint_names: names of the columns of ``q``; empty: their indices.
        head: HTML above the curves.
    """
    found = curves(recording)
    t, q = found["t"], np.asarray(recording["q"], float)
    command = np.asarray(recording.get("q_command", np.full_like(q, np.nan)), float)
    charts = [
        chart(
            "yaw [°]",
            t,
            {"object": np.degrees(found["yaw"]), "goal": np.degrees(found["goal_yaw"])},
            dashed=("goal",),
        ),
        chart("3-D orientation error [rad]", t, {"error": found["error"]}, zero=True, band=tolerance),
        chart("distance from the goal position [mm]", t, {"distance": 1e3 * found["distance"]}, zero=True),
    ]
    if "contacts" in recording:
        charts.append(chart("contacts", t, {"candidates": recording["contacts"]}, zero=True))
    if len(recording.get("solve_s", ())):
        charts.append(
            chart(
                "MPC solve [ms]",
                recording["solve_t"],
                {"solve": 1e3 * np.asarray(recording["solve_s"])},
                zero=True,
                dots=True,
            )
        )
    names = list(joint_names) or [str(i) for i in range(q.shape[1])]
    for first in range(0, q.shape[1], 4):
        group = range(first, min(first + 4, q.shape[1]))
        lines = {names[i]: q[:, i] for i in group} | {f"{names[i]} commanded": command[:, i] for i in group}
        charts.append(
            chart(
                f"{names[first]} … {names[group[-1]]} [rad]",
                t,
                lines,
                dashed=tuple(lines)[len(group) :],
                colours=len(group),
            )
        )
    return write_charts(path, charts, title, head)


def write_charts(path: Path, charts: Sequence[Mapping[str, Any]], title: str, head: str = "") -> Path:
    """Write a page of diagrams from :func:`chart` below ``head``, HTML."""
    data = json.dumps(charts, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    write_text(path, _PAGE % {"title": html.escape(title), "head": head, "data": data})
    return path


def chart(
    title: str,
    t: np.ndarray,
    lines: Mapping[str, np.ndarray],
    *,
    dashed: Sequence[str] = (),
    colours: int = 8,
    **more: Any,
) -> dict[str, Any]:
    """Return one diagram over time; the colours repeat after ``colours`` lines."""
    series = [
        {"name": name, "colour": _COLOURS[k % colours], "dash": name in dashed, "y": _numbers(y)}
        for k, (name, y) in enumerate(lines.items())
    ]
    return {
        "title": title,
        "t": _numbers(t),
        "series": [s for s in series if any(y is not None for y in s["y"])],
        **more,
    }


def picture(content: bytes, kind: str, alt: str) -> str:
    """Return an HTML image that contains its file (``gif`` or ``png``)."""
    data = base64.b64encode(content).decode()
    return f'<img style="max-width:100%" src="data:image/{kind};base64,{data}" alt="{html.escape(alt)}">'


def _numbers(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in np.asarray(values, float)]
