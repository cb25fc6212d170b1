// A small importer on openapi-typescript and openapi-fetch: create, errors, status, list, run and lines.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi-typescript/schema.js";

type Account = components["schemas"]["Account"];
type ImportState = components["schemas"]["ImportStatus"]["status"];

const [baseUrl, key, supplier] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl });

function has<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("nothing was answered");
  return value;
}

/** A switch without a default compiles only when every state is named. */
function hasEnded(state: ImportState): boolean {
  switch (state) {
    case "PENDING":
    case "IN_PROGRESS":
      return false;
    case "PROCESSED":
    case "ERRORED":
    case "CANCELLED":
    case "DRY_RUN_SUCCEEDED":
    case "DRY_RUN_ERRORED":
      return true;
  }
}

function accountOf(number: string): Account {
  return {
    import_supplier: supplier,
    external_account_number: number,
    customers: [{ family_name: "Yılmaz" }],
    billing_address1: "Schillerstraße",
    billing_address2: number,
    billing_address4: "Köln",
    billing_postcode: "50667",
    notes: [{ body: "Hausanschluss im Keller", created_at: "2024-05-01T10:00:00Z" }],
  };
}

const token = await client.POST("/v1/graphql/", {
  body: {
    query: "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token } }",
    variables: { input: { organizationSecretKey: key } },
  },
});
const obtained = has(token.data).data?.["obtainToken"] as { token: string };
client.use({
  onRequest({ request }) {
    request.headers.set("Authorization", `Token ${obtained.token}`);
    return request;
  },
});

const created = await client.POST("/v2/data-import/accounts/", {
  params: { query: { run: "wave-1" } },
  body: accountOf("1"),
});
const refused = await client.POST("/v2/data-import/accounts/", { body: { ...accountOf("2"), customers: [{ family_name: "" }] } });
const problems = refused.response.status === 400 && refused.error && "errors" in refused.error ? (refused.error.errors ?? []) : [];

let status = await statusOf("1");
for (let tries = 0; !hasEnded(status.status) && tries < 300; tries++) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  status = await statusOf("1");
}

async function statusOf(external: string) {
  return has((await client.GET("/v2/data-import/accounts/{supplier}/{external}/", { params: { path: { supplier, external } } })).data);
}

const lines = ["3", "4"].map((number) => JSON.stringify(accountOf(number))).join("\n");
const bulk = await client.POST("/v2/data-import/accounts/bulk/", {
  params: { query: { run: "wave-1" } },
  body: lines,
  bodySerializer: (body) => body,
  headers: { "Content-Type": "application/x-ndjson" },
  parseAs: "text",
});
const receipts = has(bulk.data).trim().split("\n");
const end = JSON.parse(has(receipts.at(-1))) as components["schemas"]["BulkEnd"];

const path = { supplier };
const page = await client.GET("/v2/data-import/suppliers/{supplier}/imports/", { params: { path, query: { limit: 2 } } });
const run = await client.GET("/v2/data-import/runs/{supplier}/{run}/", { params: { path: { supplier, run: "wave-1" } } });

console.log(
  JSON.stringify({
    created: created.response.status,
    problems: problems.map((problem) => `${problem.attr} ${problem.code}`),
    status: status.status,
    sent: Number.isFinite(Date.parse(status.created_at)),
    accepted: end.summary.accepted,
    listed: has(page.data).map((one) => one.external_account_number),
    next: page.response.headers.get("Link") !== null,
    run: [has(run.data).run, has(run.data).mode],
  }),
);
