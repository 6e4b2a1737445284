// Package s3test provides a MinIO server, its buckets, and a proxy that simulates faults of networks
// and servers, for the tests of package s3store and the e2e tests.
//
// MinIO is licensed under the AGPL. It runs as a separate process and is never linked. minio.go has
// the build tag e2e.
//
// Start with StartMinIO in minio.go and NewProxy in proxy.go.
package s3test
