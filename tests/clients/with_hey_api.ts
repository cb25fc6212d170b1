// The same small importer on @hey-api/openapi-ts.
import { client } from "./hey-api/client.gen.js";
import {
  createAccount,
  createAccounts,
  listImports,
  obtainToken,
  readImportStatus,
  readRun,
} from "./hey-api/sdk.gen.js";
import type { Account, BulkEnd, ImportStatus } from "./hey-api/types.gen.js";

const [baseUrl, key, supplier] = process.argv.slice(2) as [string, string, string];
client.setConfig({ baseUrl });

function has<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("nothing was answered");
  return value;
}

/** A switch without a default compiles only when every state is named. */
function hasEnded(state: ImportStatus["status"]): boolean {
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

const token = await obtainToken({
  body: {
    query: "mutation($input: ObtainTokenInput!) { obtainToken(input: $input) { token } }",
    variables: { input: { organizationSecretKey: key } },
  },
});
const obtained = has(token.data).data?.["obtainToken"] as { token: string };
client.setConfig({ baseUrl, auth: () => `Token ${obtained.token}` });

const created = await createAccount({ query: { run: "wave-1" }, body: accountOf("1") });
const refused = await createAccount({ body: { ...accountOf("2"), customers: [{ family_name: "" }] } });
const problems = refused.error && "errors" in refused.error ? (refused.error.errors ?? []) : [];

async function statusOf(external: string): Promise<ImportStatus> {
  return has((await readImportStatus({ path: { supplier, external } })).data);
}

let status = await statusOf("1");
for (let tries = 0; !hasEnded(status.status) && tries < 300; tries++) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  status = await statusOf("1");
}

const lines = ["3", "4"].map((number) => JSON.stringify(accountOf(number))).join("\n");
const bulk = await createAccounts({ query: { run: "wave-1" }, body: new Blob([lines]) });
const receipts = (await has(bulk.data).text()).trim().split("\n");
const end = JSON.parse(has(receipts.at(-1))) as BulkEnd;

const page = await listImports({ path: { supplier }, query: { limit: 2 } });
const run = await readRun({ path: { supplier, run: "wave-1" } });

console.log(
  JSON.stringify({
    created: has(created.response).status,
    problems: problems.map((problem) => `${problem.attr} ${problem.code}`),
    status: status.status,
    sent: Number.isFinite(Date.parse(status.created_at)),
    accepted: end.summary.accepted,
    listed: has(page.data).map((one) => one.external_account_number),
    next: has(page.response).headers.get("Link") !== null,
    run: [has(run.data).run, has(run.data).mode],
  }),
);
