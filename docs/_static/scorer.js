// The weights of the search: titles above text, and pages for users above those for developers. A
// title with all words of the query counts twice.
function scoreOfResult([docname, title, anchor, descr, score]) {
  const query = new URLSearchParams(window.location.search).get("q") || "";
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.filter((word) => title.toLowerCase().includes(word)).length;
  return (docname.startsWith("dev/") ? score / 4 : score) * (1 + found / Math.max(words.length, 1));
}

var Scorer = {
  score: scoreOfResult,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
