// The Vercel AI SDK with its provider for compatible servers. Arguments: base URL, feature.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, feature] = process.argv.slice(2);
const provider = createOpenAICompatible({
  name: "guarded",
  baseURL,
  apiKey: "k",
  supportsStructuredOutputs: true,
});
const model = provider("m");
const once = { model, maxRetries: 0 };

const features = {
  completion: async () => (await generateText({ ...once, prompt: "hi" })).text,
  streaming: async () => {
    let text = "";
    for await (const piece of streamText({ ...once, prompt: "hi" }).textStream)
      text += piece;
    return text;
  },
  "tool loop": async () => {
    const add = tool({
      description: "Add two numbers.",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      execute: async ({ a, b }) => String(a + b),
    });
    const answer = await generateText({
      ...once,
      prompt: "2 + 3?",
      tools: { add },
      stopWhen: stepCountIs(3),
    });
    return answer.text;
  },
  "structured output": async () => {
    const schema = z.object({ city: z.string(), population: z.number() });
    return (await generateObject({ ...once, schema, prompt: "Which city?" }))
      .object;
  },
  pivot: async () => {
    const messages = [
      { role: "user", content: "tell me of cats" },
      { role: "assistant", content: "cats purr" },
      { role: "user", content: "python lists?" },
    ];
    return (await generateText({ ...once, messages })).text;
  },
};
console.log(JSON.stringify(await features[feature]()));
