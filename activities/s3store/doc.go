// Package s3store is the artifact.Store on S3 and compatible servers, built on
// aws-sdk-go-v2.
//
// Start with New, then Probe: a program that relies on Create must not start on a
// store that ignores conditional writes, as several do.
//
// It uses the portable subset of S3 only: single PUTs, If-None-Match: * on small
// ones, server-side copies, ListObjectsV2. Objects are uploaded in one request and
// have at most 5 GiB.
//
// Requests that a store refuses or drops are repeated for about half a minute
// (failure.go), and a silent connection fails after another (conn.go). The
// SDK repeats all but Create, which itself must tell a lost response from a lost
// race.
package s3store
