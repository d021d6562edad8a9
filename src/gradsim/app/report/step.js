// Films of a page in step: with the 3-D player where there is one, else with the first film.
const films = [...document.querySelectorAll("video")];
const player = document.querySelector("iframe.player");
const choice = document.querySelector("#in-step");
const wanted = () => !choice || choice.checked;

function slider() {  // of viser's playback bar, whose page is of this origin
  try { return player && player.contentDocument && player.contentDocument.querySelector("[role=slider]"); } catch { return null; }
}
function show(film, share) {
  const time = share * film.duration;
  if (Number.isFinite(time) && Math.abs(film.currentTime - time) > 0.01) film.currentTime = Math.min(time, film.duration - 0.01);
}
let last = null;
function follow() {
  const bar = wanted() && slider();
  if (bar && Number(bar.getAttribute("aria-valuemax")) > 0) {
    const share = Number(bar.getAttribute("aria-valuenow")) / Number(bar.getAttribute("aria-valuemax"));
    if (share !== last) films.forEach((film) => { film.pause(); show(film, share); });
    last = share;
  } else if (last !== null) {
    last = null;
    films.forEach((film) => film.play());
  }
  requestAnimationFrame(follow);
}
if (player) requestAnimationFrame(follow);
const [lead, ...others] = films;
if (lead) {
  for (const event of ["timeupdate", "seeked"]) lead.addEventListener(event, () => {
    if (wanted() && last === null) others.forEach((film) => show(film, lead.currentTime / lead.duration));
  });
  lead.addEventListener("pause", () => wanted() && others.forEach((film) => film.pause()));
  lead.addEventListener("play", () => wanted() && others.forEach((film) => film.play()));
}
