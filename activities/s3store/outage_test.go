package s3store

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/storetest"
)

// failing returns the store behind a proxy, and the proxy's counter. The proxy injects each fault
// into one of the first requests of every method.
func failing(t *testing.T, g gateway, faults ...string) (*Store, func(fault string) int) {
	t.Helper()
	seen := make(chan map[string]int, 1)
	seen <- map[string]int{}
	address, count := storetest.NewProxy(t, "http://"+g.Address, func(r *http.Request) string {
		counts := <-seen
		n := counts[r.Method]
		counts[r.Method]++
		seen <- counts
		if n < len(faults) {
			return faults[n]
		}
		return ""
	})
	opts := g.options("bucket", t.Name())
	opts.Prefix = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(opts.Prefix))
	opts.Endpoint = address
	opts.wait, opts.silence = time.Millisecond, 300*time.Millisecond
	return open(t, opts), count
}

// testOutage checks that every method succeeds once the store is back.
func testOutage(t *testing.T, g gateway) {
	t.Helper()
	g.bucket(t, "bucket")
	for _, fault := range []string{"busy", "silence", "hang up", "lost answer", "half answer"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s, count := failing(t, g, fault, fault)
			require.NoError(t, s.Create(t.Context(), "claim", []byte("token 1")), "PUT")
			data, err := s.Get(t.Context(), "claim")
			require.NoError(t, err, "GET")
			require.Equal(t, "token 1", string(data))
			there, err := s.Exists(t.Context(), "claim")
			require.NoError(t, err, "HEAD")
			require.True(t, there)
			require.NoError(t, s.Delete(t.Context(), "claim"), "DELETE")
			require.Positive(t, count(fault))

			s, _ = failing(t, g, fault, fault)
			require.NoError(t, s.Put(t.Context(), "object", strings.NewReader("body")))
			for _, err := range s.List(t.Context(), "") {
				require.NoError(t, err)
			}
			s, _ = failing(t, g, fault, fault)
			require.NoError(t, s.Copy(t.Context(), "object", "copy"))
			s, _ = failing(t, g)
			var keys []string
			for key, err := range s.List(t.Context(), "") {
				require.NoError(t, err)
				keys = append(keys, key)
			}
			require.Equal(t, []string{"copy", "object"}, keys)
		})
	}
}

// testLostAnswers checks that Create distinguishes winners from losers.
func testLostAnswers(t *testing.T, g gateway) {
	t.Helper()
	g.bucket(t, "bucket")
	s, count := failing(t, g, slices.Repeat([]string{"lost answer", "busy", "hang up"}, 3)...)
	require.NoError(t, s.Create(t.Context(), "claim", []byte("token 1")))
	require.Equal(t, 6, count("lost answer"), "the first PUT wins and the others are refused by it; then it is read back")
	other, _ := failing(t, g, "lost answer", "busy")
	require.ErrorIs(t, other.Create(t.Context(), "claim", []byte("token 2")), artifact.ErrExists)
	data, err := other.Get(t.Context(), "claim")
	require.NoError(t, err)
	require.Equal(t, "token 1", string(data))
}

func TestStore_waitsForTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	testOutage(t, startGateway(t))
}

func TestCreate_survivesLostResponses(t *testing.T) {
	t.Parallel()
	testLostAnswers(t, startGateway(t))
}

func TestStore_failsIfTheServerStaysSilent(t *testing.T) {
	t.Parallel()
	silent, _ := storetest.NewProxy(t, "http://127.0.0.1:1", func(*http.Request) string { return "silence" })
	s := open(t, Options{
		Bucket: "bucket", Endpoint: silent, AccessKeyID: "a", SecretAccessKey: "s",
		wait: time.Millisecond, silence: 20 * time.Millisecond,
	})
	require.ErrorIs(t, s.Probe(t.Context()), errUnreachable)
	_, err := s.Get(t.Context(), "object")
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrNotFound)
	err = s.Create(t.Context(), "claim", []byte("token 1"))
	require.Error(t, err)
	require.NotErrorIs(t, err, artifact.ErrExists)
}

// Not parallel: it sets environment variables.
func TestStore_failsOnSilenceWhenConfiguredByTheEnvironment(t *testing.T) {
	clearAWS(t)
	silent, count := storetest.NewProxy(t, "http://127.0.0.1:1", func(*http.Request) string { return "silence" })
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("AWS_ENDPOINT_URL_S3", silent)
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	t.Setenv("AWS_DEFAULTS_MODE", "standard") // sets a dialer of its own
	s := open(t, Options{Bucket: "bucket", wait: time.Millisecond, silence: 20 * time.Millisecond})
	require.ErrorIs(t, s.Probe(t.Context()), errUnreachable)
	before := count("silence")
	_, err := s.Get(t.Context(), "object")
	require.Error(t, err)
	require.Equal(t, before+2, count("silence"))
}

func TestDelay_sumsUpToTheDocumentedPatience(t *testing.T) {
	t.Parallel()
	var least, most time.Duration
	for try := 1; try < maxTries; try++ {
		longest := min(firstWait<<(try-1), longestWait)
		wait := retryDelay(firstWait, try)
		require.GreaterOrEqual(t, wait, longest/2)
		require.LessOrEqual(t, wait, longest)
		least, most = least+longest/2, most+longest
	}
	require.Greater(t, least, 15*time.Second)
	require.Less(t, most, 40*time.Second)
}
