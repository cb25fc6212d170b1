// GraphiQL on this service's own endpoint.
const query = `mutation Token($key: String!) {
  obtainToken(input: {organizationSecretKey: $key}) { token refreshToken refreshExpiresIn }
}
`;
ReactDOM.createRoot(document.getElementById("graphiql")).render(
  React.createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: "/v1/graphql/" }),
    defaultQuery: query,
    variables: '{"key": "ilk_…"}',
    shouldPersistHeaders: false,
  }),
);
