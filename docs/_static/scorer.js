// The weights of the search: titles above text, and pages for users above those for developers.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => (docname.startsWith("dev/") ? score / 4 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
