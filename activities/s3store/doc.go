// Package s3store implements artifact.Store on S3 and compatible servers with aws-sdk-go-v2. It
// uses single PUTs (small ones with If-None-Match: *), server-side copies and ListObjectsV2.
//
// Requests that a store refuses or drops are retried for about half a minute (failure.go). The SDK
// retries them, except for Create, which must distinguish a lost response from a lost race. Silent
// connections are closed (timeoutConn). pack.go stores many small contents in one object.
//
// Start with New, then Probe. A program that relies on Create must not use a store that ignores
// conditional writes, as several do.
package s3store
