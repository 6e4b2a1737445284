// Package chaos runs sessions, pipelines and scenarios on a cluster while its parts are
// killed, stalled and cut off. The cluster has Temporal on PostgreSQL, an S3 store of two
// servers, three workers and a failing model. The test checks that every run ends well, that
// no action is doubled, that every artifact verifies, and that only calls in flight at a
// fault are paid twice.
//
// The test has the build tag e2e; `make chaos` runs it. CONCLAVE_CHAOS_REPORT names the file
// for its table.
//
// Start with TestChaos in chaos_test.go.
package chaos
