// The search: pure functions of the index and the words, so that a test can ask them without a browser.
"use strict";

const tenureSearch = (() => {
  const RESULTS_MAX = 12;
  // How much a word counts, by where it is found.
  const IN_TITLE = 8, IN_HEADING = 6, IN_TEXT = 1, WHOLE_WORD = 2, PHRASE = 6, LAST_SECTION = 0.4;
  // Words that are in every question and in every page.
  const EMPTY = new Set("a an and at do does happen happens how i if in is it my of on or the to what when which with".split(" "));

  /** The rows of the index, with what is compared in small letters. */
  function prepare(rows) {
    return rows.map(([address, title, heading, text, last]) => ({
      address, title, heading, text, last,
      lower: [title, heading, text].map((part) => part.toLowerCase()),
    }));
  }

  /** The words of a query. Those that say nothing are left out, unless there is no other. */
  function wordsOf(query) {
    const words = query.toLowerCase().split(/[\s,;:()?"]+/).filter((word) => word !== "");
    const telling = words.filter((word) => !EMPTY.has(word));
    return telling.length > 0 ? telling : words;
  }

  function weigh(word, passage) {
    const weights = [IN_TITLE, IN_HEADING, IN_TEXT];
    let sum = 0;
    passage.lower.forEach((text, index) => {
      const at = text.indexOf(word);
      if (at < 0) return;
      const before = at === 0 || !/\w/.test(text[at - 1]);
      const after = !/\w/.test(text[at + word.length] ?? " ");
      sum += weights[index] * (before ? (after ? WHOLE_WORD : 1) : 0.3);
    });
    return sum;
  }

  /** The best passages first. */
  function search(passages, query) {
    const words = wordsOf(query);
    if (words.length === 0) return [];
    const phrase = words.join(" ");
    const matches = [];
    for (const passage of passages) {
      let score = 0;
      let missing = 0;
      for (const word of words) {
        const weight = weigh(word, passage);
        if (weight === 0) missing += 1;
        score += weight;
      }
      // One of many words may be missing, so that a question finds its answer.
      if (missing > Math.floor(words.length / 3)) continue;
      if (words.length > 1 && passage.lower.some((text) => text.includes(phrase))) score += PHRASE;
      score /= 1 + missing * 2;
      if (passage.last) score *= LAST_SECTION;
      matches.push({ passage, score });
    }
    matches.sort((one, other) => other.score - one.score);
    return matches.slice(0, RESULTS_MAX).map((match) => match.passage);
  }

  return { prepare, wordsOf, search };
})();
