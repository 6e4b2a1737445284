package s3store

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

func TestProbe_refusesAStoreThatIgnoresConditions(t *testing.T) {
	t.Parallel()
	server := &scripted{ignoresConditions: true}
	err := server.start(t).Probe(t.Context())
	require.ErrorIs(t, err, errConditionalWrites)
	require.ErrorContains(t, err, `bucket "bucket" at http://127.0.0.1:`)
	require.ErrorContains(t, err, "use a store that supports If-None-Match")
	require.Empty(t, server.objects, "the probe cleans up")
}

func TestProbe_refusesAStoreThatOverwritesDespiteItsRefusal(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(s *scripted, w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Method != http.MethodPut || n == 1 {
			return false
		}
		s.store(r)
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return true
	}}
	require.ErrorIs(t, server.start(t).Probe(t.Context()), errConditionalWrites)
}

func TestProbe_namesTheReason(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status int
		code   string
		want   error
	}{
		"not implemented":   {http.StatusNotImplemented, "NotImplemented", errConditionalWrites},
		"always taken":      {http.StatusPreconditionFailed, "PreconditionFailed", errConditionalWrites},
		"no bucket":         {http.StatusNotFound, "NoSuchBucket", errNoBucket},
		"wrong keys":        {http.StatusForbidden, "SignatureDoesNotMatch", errRefused},
		"may not write":     {http.StatusForbidden, "AccessDenied", errRefused},
		"unknown key in v1": {http.StatusNotFound, "XAdminUserNotFound", errRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &scripted{script: func(_ *scripted, w http.ResponseWriter, _ *http.Request, _ int) bool {
				refuse(w, tt.status, tt.code)
				return true
			}}
			err := server.start(t).Probe(t.Context())
			require.ErrorIs(t, err, tt.want)
			require.ErrorContains(t, err, `bucket "bucket"`)
		})
	}
}

func TestStore_retriesWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(_ *scripted, w http.ResponseWriter, _ *http.Request, n int) bool {
		if n > 1 {
			return false
		}
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}}
	store := server.start(t)
	require.NoError(t, store.Probe(t.Context()))
	require.NoError(t, store.Put(t.Context(), "object", strings.NewReader("body")))
	data, err := store.Get(t.Context(), "object")
	require.NoError(t, err)
	require.Equal(t, "body", string(data))
}

func TestCreate_failsIfTheServerStaysBusy(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(_ *scripted, w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	}}
	store := server.start(t)
	err := store.Create(t.Context(), "claim", []byte("1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrExists)
	require.Equal(t, maxTries, server.puts())
}

func TestProbe_reportsAnUnreachableStore(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	endpoint := "http://" + l.Addr().String()
	require.NoError(t, l.Close())

	store := open(t, Options{Bucket: "bucket", Endpoint: endpoint, AccessKeyID: "a", SecretAccessKey: "s"})
	err = store.Probe(t.Context())
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorContains(t, err, endpoint)
	require.ErrorContains(t, err, "AWS_ENDPOINT_URL_S3")
}

func TestGet_distinguishesAMissingBucketFromAMissingObject(t *testing.T) {
	t.Parallel()
	server := &scripted{script: func(_ *scripted, w http.ResponseWriter, _ *http.Request, _ int) bool {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return true
	}}
	_, err := server.start(t).Get(t.Context(), "object")
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrNotFound)
}
