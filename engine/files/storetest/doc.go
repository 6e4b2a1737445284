// Package storetest specifies artifact.Store by tests. The tests of every store call Run;
// the port promises only the behaviour tested here.
//
// For the tests of activities/s3store and the e2e tests it also provides a MinIO server, its
// buckets, and a proxy that simulates faults of networks and servers. MinIO is licensed under the
// AGPL. It runs as a separate process and is never linked. minio.go has the build tag e2e.
//
// Start with Run in storetest.go, then StartMinIO in minio.go and NewProxy in keys.go.
package storetest
