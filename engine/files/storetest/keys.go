package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/files/artifact"
)

func listOrder(t *testing.T, s artifact.Store) {
	// "-" and "." sort before "/", so a walk by file names yields another order.
	keys := []string{"Z", "a-b", "a-b.c/x", "a.txt", "a/Y", "a/a", "a/b-c", "a/b/.hidden", "a/b/c", "a0", "b"}
	require.True(t, slices.IsSorted(keys))
	for _, i := range []int{5, 0, 10, 3, 8, 1, 9, 2, 7, 4, 6} {
		putText(t, s, keys[i], "x")
	}
	require.Equal(t, keys, listKeys(t, s, ""))
	require.Equal(t, []string{"a/Y", "a/a", "a/b-c", "a/b/.hidden", "a/b/c"}, listKeys(t, s, "a/"))
	require.Equal(t, []string{"a/b/.hidden", "a/b/c"}, listKeys(t, s, "a/b/"))
	require.Empty(t, listKeys(t, s, "a/b/c/"))
	require.Empty(t, listKeys(t, s, "none/"))
}

func listPages(t *testing.T, s artifact.Store) {
	want := putMany(t, s, 1100) // a page of S3 has 1000
	require.Equal(t, want, listKeys(t, s, "ledger/"))
}

func putMany(t *testing.T, s artifact.Store, count int) []string {
	t.Helper()
	keys := make([]string, count)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range keys {
		keys[i] = fmt.Sprintf("ledger/%06d.json", i)
		group.Go(func() error { return s.Put(ctx, keys[i], strings.NewReader("{}")) })
	}
	require.NoError(t, group.Wait())
	return keys
}

func listLeft(t *testing.T, s artifact.Store) {
	for _, key := range []string{"a/1", "a/2", "b/3"} {
		putText(t, s, key, "x")
	}
	for key, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		if key == "a/2" {
			break
		}
		require.Equal(t, "a/1", key)
	}
}

func escapedNames(t *testing.T, s artifact.Store) {
	names := []string{
		"my notes.txt", "a=b", "a=20b", "100%", "a+b&c?d#e", "naïve.md", "e\u0301tude.md", "報告/一.txt",
		`back\slash`, "quote\"s'", "tab\tnew\nline", "control\x01", "latin\xe9", "~home", ".env", "-rf", "...",
	}
	var keys []string
	for _, name := range names {
		escaped, err := artifact.EscapePath(name)
		require.NoError(t, err)
		keys = append(keys, "workspace/"+escaped)
		putText(t, s, keys[len(keys)-1], name)
	}
	for i, name := range names {
		requireObject(t, s, keys[i], name)
	}
	slices.Sort(keys)
	require.Equal(t, keys, listKeys(t, s, "workspace/"))
	require.NoError(t, s.Copy(t.Context(), "workspace/my=20notes.txt", "copies/=E5=A0=B1"))
	requireObject(t, s, "copies/=E5=A0=B1", "my notes.txt")
	require.Equal(t, []string{"copies/=E5=A0=B1"}, listKeys(t, s, "copies/"))
}

func callMethods(ctx context.Context, s artifact.Store, key string) map[string]error {
	_, get := s.Get(ctx, key)
	_, open := s.Open(ctx, key)
	_, exists := s.Exists(ctx, key)
	return map[string]error{
		"get": get, "open": open, "exists": exists,
		"put":       s.Put(ctx, key, strings.NewReader("y")),
		"create":    s.Create(ctx, key, []byte("y")),
		"copy from": s.Copy(ctx, key, "copy"),
		"copy to":   s.Copy(ctx, "object", key),
		"delete":    s.Delete(ctx, key),
		"deleteAll": s.DeleteAll(ctx, []string{key}),
	}
}

func badKeys(t *testing.T, s artifact.Store) {
	putText(t, s, "object", "x")
	var bad *artifact.NameError
	for _, key := range []string{
		"", "/a", "a/", "a//b", ".", "..", "./a", "a/./b", "a/../b", "../a", "a b", "a\\b", "a=b", "a=2eb", "a=00b",
		"a=2Fb", "ä", ".conclave-tmp/x", strings.Repeat("a", 256), strings.Repeat("a/", 500) + "a",
	} {
		for method, err := range callMethods(t.Context(), s, key) {
			require.ErrorAs(t, err, &bad, "%s %q", method, key)
		}
	}
	for _, prefix := range []string{"a", "/", "a//", "../", "a b/"} {
		for _, err := range s.List(t.Context(), prefix) {
			require.ErrorAs(t, err, &bad, "list %q", prefix)
		}
	}
	require.Equal(t, []string{"object"}, listKeys(t, s, ""))
}

func urlOfObject(t *testing.T, s artifact.Store) {
	url := s.URL("agents/a/001/answer.json")
	require.True(t, strings.HasSuffix(url, "/agents/a/001/answer.json"), url)
	require.NotContains(t, strings.TrimPrefix(url, "s3://"), ":", "neither a host nor a port")
}

func createRace(t *testing.T, s artifact.Store) {
	const racers = 64
	for round := range 3 {
		key := fmt.Sprintf("agents/a/%03d/step.json", round+1)
		var won atomic.Int64
		var winner atomic.Value
		start := make(chan struct{})
		group, ctx := errgroup.WithContext(t.Context())
		for racer := range racers {
			group.Go(func() error {
				<-start
				body := fmt.Sprintf(`{"token": %d}`, racer)
				err := s.Create(ctx, key, []byte(body))
				if errors.Is(err, artifact.ErrExists) {
					return nil
				}
				if err == nil {
					won.Add(1)
					winner.Store(body)
				}
				return err
			})
		}
		close(start)
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, won.Load(), "winners")
		requireObject(t, s, key, winner.Load().(string))
	}
}

func tornReads(t *testing.T, s artifact.Store) {
	const size, writes = 256 << 10, 20
	put := func(c byte) error {
		return s.Put(t.Context(), "status.json", bytes.NewReader(bytes.Repeat([]byte{c}, size)))
	}
	require.NoError(t, put('a'))
	var writers, readers errgroup.Group
	for w := range 2 {
		writers.Go(func() error {
			for i := range writes {
				if err := put(byte('b' + w*writes + i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var done atomic.Bool
	for range 4 {
		readers.Go(func() error {
			for last := false; !last; {
				last = done.Load()
				data, err := s.Get(t.Context(), "status.json")
				if err != nil {
					return err
				}
				if len(data) != size || bytes.Count(data, data[:1]) != size {
					return fmt.Errorf("read %d bytes, not one version", len(data))
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	done.Store(true)
	require.NoError(t, readers.Wait())
}

type proxy struct {
	t       *testing.T
	decide  func(*http.Request) string
	forward http.Handler
	closing chan struct{}

	mu     sync.Mutex
	counts map[string]int
}

// NewProxy starts a proxy for the S3 server at target. It returns the proxy's URL and a function
// that counts the requests with a given fault. It calls decide, concurrently, to choose the fault
// of each request:
//
//	""             none: the request is forwarded, with its signature intact
//	"busy"         answered with 503 SlowDown
//	"silence"      read and never answered
//	"hang up"      the connection ends without a response
//	"lost answer"  forwarded, then the connection ends without a response
//	"half answer"  forwarded, then the connection ends within the response's body
func NewProxy(t *testing.T, target string, decide func(*http.Request) string) (address string, count func(fault string) int) {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	p := &proxy{t: t, decide: decide, closing: make(chan struct{}), counts: map[string]int{}}
	p.forward = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the host is signed
	}}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		close(p.closing)
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, func(fault string) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.counts[fault]
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := p.decide(r)
	p.mu.Lock()
	p.counts[fault]++
	p.mu.Unlock()
	switch fault {
	case "":
		p.forward.ServeHTTP(w, r)
	case "busy":
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	case "silence":
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the connection is not noticed
		select {
		case <-r.Context().Done():
		case <-p.closing:
		}
	case "hang up":
		hangUp(w)
	case "lost answer":
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		hangUp(w)
	case "half answer":
		p.cutShort(w, r)
	default:
		p.t.Errorf("s3test: unknown fault %q", fault)
	}
}

func (p *proxy) cutShort(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	p.forward.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	hangUp(w)
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// CreateBucket creates a bucket on the server at an endpoint.
func CreateBucket(t testing.TB, endpoint, accessKey, secretKey, bucket string) {
	t.Helper()
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	require.NoError(t, err)
}
