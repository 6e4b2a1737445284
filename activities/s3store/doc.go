// Package s3store is the artifact.Store on S3 and the servers that speak its
// language, on aws-sdk-go-v2.
//
// Start with New, then Probe: a program that relies on Create must not start on
// a store that ignores conditional writes, and several do.
//
// It uses the portable subset of S3 only: single PUTs, If-None-Match: * on small
// ones, server-side copies, ListObjectsV2. An object is uploaded in one request,
// so it can have 5 GiB at most, and a copy as well.
//
// A store that refuses or drops requests is waited for: about half a minute, see
// retry.go, and one that falls silent is given up after another, see conn.go. The
// SDK repeats what can be repeated. Create repeats by itself, because only it can
// tell an attempt that was lost on the way from one that lost the race.
//
// It is no S3 server, and it knows nothing of what is stored: keys and documents
// belong to engine/artifact.
package s3store
