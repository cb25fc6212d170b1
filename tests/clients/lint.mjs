// Lint a description with Spectral's `oas` rules and with Redocly's `recommended` rules. Print the findings as JSON.
import { readFile } from "node:fs/promises";
import redocly from "@redocly/openapi-core";
import spectral from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";

const file = process.argv[2];

// The published contract gives its paths with a slash at the end, and clients rely on them. The service takes both.
const slashes = "off";
// Redocly does not follow `x-itemSchema`, which names the schemas of lines.
const lines = "off";

const oas = new spectral.Spectral();
oas.setRuleset({ extends: [rulesets.oas], rules: { "path-keys-no-trailing-slash": slashes } });
const found = (await oas.run(await readFile(file, "utf8"))).map((one) => ({
  tool: "spectral",
  severity: one.severity,
  rule: one.code,
  place: one.path.join("/"),
  message: one.message,
}));

const config = await redocly.createConfig({
  extends: ["recommended"],
  rules: { "no-path-trailing-slash": slashes, "no-unused-components": lines },
});
for (const one of await redocly.lint({ ref: file, config })) {
  found.push({ tool: "redocly", severity: one.severity, rule: one.ruleId, place: one.location[0].pointer, message: one.message });
}
console.log(JSON.stringify(found));
