// Package e2e takes whole sessions through real parts: the built conclave
// binary, the embedded Temporal server and S3 store, the Temporal CLI, and a
// model behind real HTTP whose replies are scripted.
//
// Its tests have the build tag e2e; `make e2e` builds their programs. They talk
// to 127.0.0.1 only.
package e2e
