package s3store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/storetest"
)

func TestStore_conforms(t *testing.T) {
	t.Parallel()
	testConformance(t, startGateway(t))
}

func testConformance(t *testing.T, g gateway) {
	t.Helper()
	g.bucket(t, "bucket")
	var opened atomic.Int64
	storetest.Run(t, func(t *testing.T) artifact.Store {
		t.Helper()
		return open(t, g.options("bucket", fmt.Sprintf("team/run-%d", opened.Add(1))))
	})
}

func TestStore_worksWithSmallPagesAndWithoutChecksums(t *testing.T) {
	t.Parallel()
	testSmallPages(t, startGateway(t))
}

func testSmallPages(t *testing.T, g gateway) {
	t.Helper()
	opts := g.options("bucket", "")
	opts.ChecksumsWhenRequired = true
	s := open(t, opts)
	s.pageSize = 3
	g.bucket(t, "bucket")
	require.NoError(t, s.Probe(t.Context()))
	var want, got []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("dir/%d", i))
		require.NoError(t, s.Put(t.Context(), want[i], strings.NewReader(want[i])))
	}
	for key, err := range s.List(t.Context(), "dir/") {
		require.NoError(t, err)
		data, err := s.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, key, string(data))
		got = append(got, key)
	}
	require.Equal(t, want, got)
}

func TestList_returnsOnlyKeysOfThePrefix(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.bucket(t, "shared")
	a, ab := open(t, g.options("shared", "a")), open(t, g.options("shared", "/ab/"))
	require.NoError(t, a.Put(t.Context(), "x", strings.NewReader("a")))
	require.NoError(t, ab.Put(t.Context(), "y", strings.NewReader("ab")))
	for key, err := range a.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, "x", key)
	}
	require.Equal(t, "s3://shared/ab/y", ab.URL("y"))
	exists, err := ab.Exists(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, exists)
}

func TestProbe_onARealStore(t *testing.T) {
	t.Parallel()
	testProbe(t, startGateway(t))
}

func testProbe(t *testing.T, g gateway) {
	t.Helper()
	s := open(t, g.options("bucket", "teams"))
	err := s.Probe(t.Context())
	require.ErrorIs(t, err, errNoBucket)
	require.ErrorContains(t, err, `"bucket"`)

	g.bucket(t, "bucket")
	require.NoError(t, s.Probe(t.Context()))
	for key, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, "the probe left an object behind", key)
	}

	opts := g.options("bucket", "")
	opts.SecretAccessKey = "wrong-secret-key"
	require.ErrorIs(t, open(t, opts).Probe(t.Context()), errRefused)
	opts = g.options("bucket", "")
	opts.AccessKeyID = "unknown"
	require.ErrorIs(t, open(t, opts).Probe(t.Context()), errRefused)
}

func TestPut_boundsTheKeyWithItsPrefix(t *testing.T) {
	t.Parallel()
	s := open(t, Options{
		Bucket: "bucket", Prefix: strings.Repeat("p", 100), Endpoint: "http://127.0.0.1:1", AccessKeyID: "a", SecretAccessKey: "s",
	})
	key := strings.Repeat("abcd/", 190) + "x"
	require.NoError(t, artifact.CheckKey(key))
	_, ok := errors.AsType[*artifact.NameError](s.Put(t.Context(), key, strings.NewReader("")))
	require.True(t, ok)
}

func TestNew_refusesInvalidOptions(t *testing.T) {
	t.Parallel()
	good := Options{Bucket: "bucket", Endpoint: "http://127.0.0.1:9000", AccessKeyID: "a", SecretAccessKey: "s"}
	_, err := New(t.Context(), good)
	require.NoError(t, err)
	for name, invalidate := range map[string]func(*Options){
		"no bucket":        func(o *Options) { o.Bucket = "" },
		"bucket with path": func(o *Options) { o.Bucket = "bucket/prefix" },
		"bucket as URL":    func(o *Options) { o.Bucket = "s3://bucket" },
		"half a key pair":  func(o *Options) { o.SecretAccessKey = "" },
		"bare host":        func(o *Options) { o.Endpoint = "127.0.0.1:9000" },
		"other scheme":     func(o *Options) { o.Endpoint = "ftp://127.0.0.1" },
		"prefix with dots": func(o *Options) { o.Prefix = "../other" },
		"long prefix":      func(o *Options) { o.Prefix = strings.Repeat("a/", 129) + "a" },
		"odd prefix":       func(o *Options) { o.Prefix = "my team" },
	} {
		opts := good
		invalidate(&opts)
		_, err := New(t.Context(), opts)
		require.Error(t, err, name)
	}
}

// The tests below are not parallel: they set environment variables.

func TestNew_readsTheEnvironment(t *testing.T) {
	g := startGateway(t)
	clearAWS(t)
	t.Setenv("AWS_ACCESS_KEY_ID", g.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", g.SecretKey)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+g.Address)
	t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
	s := open(t, Options{Bucket: "from-env"})
	g.bucket(t, "from-env")
	require.NoError(t, s.Probe(t.Context()))
	require.True(t, s.client.Options().UsePathStyle)
	require.Equal(t, "us-east-1", s.client.Options().Region)
	require.EqualValues(t, 2, s.client.Options().RequestChecksumCalculation)
}

func TestNew_ignoresTheEnvironmentWithExplicitKeys(t *testing.T) {
	g := startGateway(t)
	clearAWS(t)
	t.Setenv("AWS_PROFILE", "no-such-profile")
	t.Setenv("AWS_ACCESS_KEY_ID", "other")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "other")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	s := open(t, g.options("explicit", ""))
	g.bucket(t, "explicit")
	require.NoError(t, s.Probe(t.Context()))
}

func TestNew_requiresARegionForAWS(t *testing.T) {
	clearAWS(t)
	_, err := New(t.Context(), Options{Bucket: "bucket"})
	require.ErrorContains(t, err, "AWS_REGION")

	t.Setenv("AWS_REGION", "eu-central-1")
	s := open(t, Options{Bucket: "bucket"})
	require.False(t, s.client.Options().UsePathStyle)
	require.Equal(t, `bucket "bucket" (AWS, eu-central-1)`, s.location())
}

func clearAWS(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REQUEST_CHECKSUM_CALCULATION",
	} {
		t.Setenv(name, "")
	}
	empty := t.TempDir()
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(empty, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(empty, "credentials"))
}
