/** Sentences made of parts: strong words, code, tones. */

import { visible } from "../model/shown.js";
import type { Part } from "../model/story.js";

export function Sentence({ parts }: { parts: Part[] }) {
  return (
    <>
      {parts.map((part, i) => {
        const words = visible(part.text);
        if (part.style === "code") return <code key={i}>{words}</code>;
        if (part.style === "strong")
          return (
            <b key={i} class={part.tone ? `t-${part.tone} ink` : ""}>
              {words}
            </b>
          );
        return <span key={i}>{words}</span>;
      })}
    </>
  );
}
