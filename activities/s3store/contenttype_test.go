package s3store

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// Consoles and browsers show the documents of a session instead of downloading them.
func TestStore_contentTypes(t *testing.T) {
	t.Parallel()
	testContentTypes(t, startGateway(t))
}

func testContentTypes(t *testing.T, g gateway) {
	t.Helper()
	g.bucket(t, "bucket")
	s := open(t, g.options("bucket", "p"))
	blob, err := artifact.PutBlob(t.Context(), s, artifact.Layout{}, []byte("x"))
	require.NoError(t, err)
	packed := strings.Repeat("0", 64)
	require.NoError(t, s.PutBlobs(t.Context(), "blobs/sha256/", []artifact.Content{{SHA256: packed, Data: []byte("x")}}))
	for key, want := range map[string]string{
		"status.json":                             "application/json",
		"agents/a/001/transcript.jsonl":           "application/x-ndjson",
		"final/a/workspace/my=20notes.md":         "text/markdown; charset=utf-8",
		"final/a/workspace/index.html":            "text/html; charset=utf-8",
		"final/a/change.patch":                    "text/plain; charset=utf-8",
		"notes.txt":                               "text/plain; charset=utf-8",
		"step-01/evidence/001.png":                "image/png",
		"step-01/evidence/002.jpg":                "image/jpeg",
		"blobs/sha256/" + strings.Repeat("1", 64): "application/octet-stream",
		"final/a/workspace/json":                  "application/octet-stream",
	} {
		for how, store := range map[string]func(key string) error{
			"put":         func(key string) error { return s.Put(t.Context(), key, strings.NewReader("x")) },
			"created":     func(key string) error { return s.Create(t.Context(), key, []byte("x")) },
			"copied":      func(key string) error { return s.Copy(t.Context(), "blobs/sha256/"+blob, key) },
			"from a pack": func(key string) error { return s.Copy(t.Context(), "blobs/sha256/"+packed, key) },
		} {
			_ = s.Delete(t.Context(), key)
			require.NoError(t, store(key))
			head, err := s.client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &s.bucket, Key: aws.String("p/" + key)})
			require.NoError(t, err)
			require.Equal(t, want, aws.ToString(head.ContentType), "%s %s", key, how)
			data, err := s.Get(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, "x", string(data))
		}
	}
}
