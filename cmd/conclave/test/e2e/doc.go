// Package e2e runs whole sessions with real parts: the built conclave binary, the
// embedded Temporal server and S3 store, the Temporal CLI, and a scripted model
// behind real HTTP.
//
// Its tests have the build tag e2e; `make e2e` builds their programs. They connect
// to 127.0.0.1 only.
//
// Start with TestThreeRounds in run_test.go.
//
// # Pages
//
// Package e2e tests the pages of sessions in a real browser. Start with browser_test.go.
package e2e
