"""A page that shows what control did to texts, token by token: one HTML file that needs nothing else."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlgen.cache import written_whole
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlgen.flows.results import Step, Trace

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}
.text{font:14px/1.9 ui-monospace,monospace;white-space:pre-wrap;border:1px solid #ccc;padding:.6em;
overflow-wrap:anywhere}
.text span{cursor:default;border-radius:2px}.text span.on{outline:2px solid #333}
.prompt{color:#666;white-space:pre-wrap}.details{min-height:12em}table{border-collapse:collapse;display:inline-block;
vertical-align:top;margin-right:2em}td,th{padding:0 .6em;text-align:left}td.n{text-align:right}
svg{width:100%;height:120px;border:1px solid #ccc}label{margin-right:1em}
"""
_SCRIPT = """
const data=JSON.parse(document.getElementById('data').textContent);
const number=x=>x===null?'':x.toFixed(3);
const shade=(x,most)=>`rgba(220,60,30,${most>0?Math.min(1,x/most)*.75:0})`;
function value(step,what){return what==='mass'?(step.removed??0):(step.kl[+what]??0)}
function draw(section,texts){
  const box=section.querySelector('.text'),details=section.querySelector('.details'),svg=section.querySelector('svg');
  const show=(what)=>{
    const most=what==='mass'?1:Math.max(1e-9,...texts.steps.map(s=>value(s,what)));
    [...box.children].forEach((span,i)=>{span.style.background=shade(value(texts.steps[i],what),most)});
    const points=texts.steps.map((s,i)=>`${(i+.5)/texts.steps.length*1000},${110-100*Math.min(1,value(s,what)/most)}`);
    svg.innerHTML=`<polyline fill="none" stroke="#c33" stroke-width="2" points="${points.join(' ')}"/>`;
  };
  const table=(name,rows)=>{
    const t=document.createElement('table');const head=t.insertRow();const th=document.createElement('th');
    th.colSpan=2;th.textContent=name;head.append(th);
    for(const [piece,p] of rows){const r=t.insertRow();r.insertCell().textContent=JSON.stringify(piece);
      const c=r.insertCell();c.className='n';c.textContent=p.toFixed(4)}
    return t};
  texts.steps.forEach((step,i)=>{
    const span=document.createElement('span');span.textContent=step.piece||'\\u25a1';span.tabIndex=0;
    const told=()=>{
      box.querySelectorAll('.on').forEach(one=>one.classList.remove('on'));span.classList.add('on');
      details.replaceChildren();const p=document.createElement('p');
      p.textContent=`step ${i+1}, token ${step.token} ${JSON.stringify(step.piece)}: mass removed `+
        `${step.removed===null?'-':number(step.removed)}`+
        step.kl.map((k,j)=>`; KL of ${texts.steerers[j]??'steerer '+(j+1)} ${number(k)} nats`).join('');
      details.append(p);
      if(step.before.length)details.append(table('before',step.before),table('after',step.after));
    };
    span.addEventListener('mouseenter',told);span.addEventListener('focus',told);box.append(span);
  });
  section.querySelectorAll('input').forEach(input=>input.addEventListener('change',()=>show(input.value)));
  show(section.querySelector('input:checked').value);
}
document.querySelectorAll('section').forEach((section,i)=>draw(section,data[i]));
document.body.dataset.ready='1';
"""


def write_page(path: str | Path, traces: Sequence[Trace], prompts: Sequence[str] | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        path: of the HTML file.
        traces: as ``generate`` made them.
        prompts: shown above each text.

    Raises:
        InputError: not as many prompts as traces.
    """
    shown = [""] * len(traces) if prompts is None else list(prompts)
    if len(shown) != len(traces):
        raise InputError(f"{len(shown)} prompts for {len(traces)} traces; pass as many")
    data = [{"steps": [_step(one, trace) for one in trace.steps], "steerers": trace.steerers} for trace in traces]
    sections = [_section(i, trace, prompt) for i, (trace, prompt) in enumerate(zip(traces, shown, strict=True))]
    # no text can end the script element
    packed = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ctrlgen trace</title><style>{_STYLE}'
        f"</style></head><body><h1>What control did</h1>{''.join(sections)}"
        f'<script type="application/json" id="data">{packed}</script><script>{_SCRIPT}</script></body></html>\n'
    )
    with written_whole(Path(path)) as file:
        file.write(page.encode("utf-8", errors="replace"))


def _section(number: int, trace: Trace, prompt: str) -> str:
    names = [f"KL of {name}" for name in trace.steerers]
    choices = [("mass", "mass removed by the mask"), *((str(i), name) for i, name in enumerate(names))]
    inputs = "".join(
        f'<label><input type="radio" name="shade{number}" value="{value}"{" checked" if not i else ""}> '
        f"{html.escape(name)}</label>"
        for i, (value, name) in enumerate(choices)
    )
    sums = [sum(one.divergences[i] for one in trace.steps if len(one.divergences) > i) for i in range(len(names))]
    told = "".join(f", {html.escape(name)} {one:.3f} nats" for name, one in zip(names, sums, strict=True))
    return (
        f'<section><p class="prompt">{html.escape(prompt)}</p><p>{len(trace.steps)} tokens, projection tax '
        f"{_finite(trace.projection_tax) or 0:.3f} nats{told}, {trace.total_seconds:.3f} s, of which mask "
        f"{trace.mask_seconds:.3f} s, steering {trace.steering_seconds:.3f} s</p><p>{inputs}</p>"
        '<div class="text"></div><svg viewBox="0 0 1000 120" preserveAspectRatio="none"></svg>'
        '<div class="details"></div></section>'
    )


def _step(step: Step, trace: Trace) -> dict[str, Any]:
    removed = None if step.log_mass is None else max(0.0, 1.0 - math.exp(step.log_mass))
    return {
        "token": step.token,
        "piece": trace.pieces.get(step.token, ""),
        "removed": removed,
        "kl": [_finite(one) for one in step.divergences],
        "before": [[trace.pieces.get(token, ""), p] for token, p in step.before],
        "after": [[trace.pieces.get(token, ""), p] for token, p in step.after],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
