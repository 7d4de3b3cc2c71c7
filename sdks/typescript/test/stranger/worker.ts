import { Worker } from "@tenure/sdk";
import { greet, order, pack } from "./tasks.js";

await new Worker({ tasks: [greet, order, pack] }).run();
