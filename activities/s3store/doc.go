// Package s3store is the artifact.Store on S3 and compatible servers, built on
// aws-sdk-go-v2. It uses single PUTs, If-None-Match: * on small ones, server-side
// copies and ListObjectsV2.
//
// Requests that a store refuses or drops are repeated for about half a minute
// (failure.go): Create, which must tell a lost response from a lost race, by
// itself, the others by the SDK. A silent connection fails as well (conn.go).
//
// Start with New, then Probe: a program that relies on Create must not start on a
// store that ignores conditional writes, as several do.
package s3store
