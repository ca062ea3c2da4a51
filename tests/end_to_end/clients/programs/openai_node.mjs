// The official Node client. Arguments: base URL, feature.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [baseURL, feature] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "k", maxRetries: 0 });
const hi = [{ role: "user", content: "hi" }];
const parameters = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
};

const features = {
  completion: async () =>
    (await client.chat.completions.create({ model: "m", messages: hi }))
      .choices[0].message.content,
  streaming: async () => {
    let text = "";
    const stream = await client.chat.completions.create({
      model: "m",
      messages: hi,
      stream: true,
    });
    for await (const chunk of stream)
      text += chunk.choices[0]?.delta?.content ?? "";
    return text;
  },
  "tool loop": async () =>
    client.chat.completions
      .runTools({
        model: "m",
        messages: hi,
        tools: [
          {
            type: "function",
            function: {
              name: "add",
              description: "Add two numbers.",
              parameters,
              parse: JSON.parse,
              function: ({ a, b }) => String(a + b),
            },
          },
        ],
      })
      .finalContent(),
  "structured output": async () => {
    const city = z.object({ city: z.string(), population: z.number() });
    const answer = await client.chat.completions.parse({
      model: "m",
      messages: hi,
      response_format: zodResponseFormat(city, "city"),
    });
    return answer.choices[0].message.parsed;
  },
  pivot: async () => {
    const messages = [
      { role: "user", content: "tell me of cats" },
      { role: "assistant", content: "cats purr" },
      { role: "user", content: "python lists?" },
    ];
    return (await client.chat.completions.create({ model: "m", messages }))
      .choices[0].message.content;
  },
};
console.log(JSON.stringify(await features[feature]()));
