// Package s3test gives tests an S3 server of another make, as a process of its
// own, and a proxy that fails in the ways in which networks and servers do.
//
// It is for tests only. MinIO, which is under the AGPL, is run and never linked;
// the part that runs it has the build tag e2e.
package s3test
