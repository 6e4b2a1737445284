//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
)

// behindTLS serves a gRPC address with TLS, to clients with a certificate, and returns the environment
// of such a client of Temporal. Its certificate is also the client's.
func behindTLS(t *testing.T, c *e2eCLI, address string) (env []string) {
	t.Helper()
	plain := &http.Transport{Protocols: new(http.Protocols)}
	plain.Protocols.SetUnencryptedHTTP2(true)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.Transport, proxy.FlushInterval = plain, -1
	server := httptest.NewUnstartedServer(proxy)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	certificate := c.file("temporal.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	private := c.file("temporal.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return []string{
		"TEMPORAL_ADDRESS=" + strings.TrimPrefix(server.URL, "https://"),
		"TEMPORAL_TLS_SERVER_CA_CERT_PATH=" + certificate,
		"TEMPORAL_TLS_CLIENT_CERT_PATH=" + certificate,
		"TEMPORAL_TLS_CLIENT_KEY_PATH=" + private,
	}
}

// A worker and commands with a key, and with a certificate of their own, keep a session unreadable for
// a client without the key. The codec server makes it readable for the temporal CLI
// and for the Web UI.
func TestEncryptedHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := newCLI(t)
	key := strings.TrimSpace(c.conclave("codec", "key", "e2e").stdout)
	c = newCLI(t, append(behindTLS(t, c, s.stack.TemporalAddress), "CONCLAVE_PAYLOAD_KEY="+key, "AWS_REGION="+s.stack.S3Region,
		"AWS_ENDPOINT_URL_S3="+s.stack.S3Endpoint, "AWS_ACCESS_KEY_ID="+s.stack.S3AccessKey, "AWS_SECRET_ACCESS_KEY="+s.stack.S3SecretKey)...)
	worker := c.start("worker", "--bucket", s.stack.Bucket, "--prefix", "encrypted", "--offline")
	worker.prints(t, "worker on the task queue conclave")

	out := c.conclave("start", "--offline", "--session-id", "hidden", "Where is the treasure?")
	require.Equal(t, 0, out.code, out.stderr)
	out = c.conclave("result", "hidden", "--wait", "--json")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, `"consensus"`)
	out = c.conclave("list")
	require.Contains(t, out.stdout, "Where is the treasure?")
	out = c.conclave("status", "hidden")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "Where is the treasure?")

	out = newCLI(t).conclave("result", "hidden", "--address", s.stack.TemporalAddress)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "the payloads are encrypted; set CONCLAVE_PAYLOAD_KEY as on the workers")

	history := s.history("hidden")
	require.NotEmpty(t, history.GetEvents())
	encrypted := 0
	for _, event := range history.GetEvents() {
		text := prototext.Format(event)
		require.NotContains(t, text, "treasure")
		if event.GetUpsertWorkflowSearchAttributesEventAttributes() == nil { // the server reads those
			require.NotContains(t, text, `"json/plain"`, "every payload is encrypted")
		}
		encrypted += strings.Count(text, `"binary/encrypted"`)
	}
	require.Greater(t, encrypted, 10)

	at := freeAddress(t)
	c.start("codec", "serve", "--listen", at).prints(t, "codec server on http://"+at)
	show := []string{"workflow", "show", "--workflow-id", "hidden", "--output", "json"}
	query := base64.StdEncoding.EncodeToString([]byte(`"Where is the treasure?"`)) // the summary's payload
	require.NotContains(t, c.temporal(show...).stdout, query)
	require.Contains(t, c.temporal(append(show, "--codec-endpoint", "http://"+at)...).stdout, query)
	s.showsInWebUI(t, c, "hidden", "Where is the treasure?")
	require.NoError(t, worker.Process.Kill())
	worker.ends(t)
}

// showsInWebUI requires that the Web UI, in a browser, shows a text on the page of a workflow if its
// setting names a codec server, and else does not.
func (s *site) showsInWebUI(t *testing.T, c *e2eCLI, id, text string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Log("no chromium: the Web UI is not tried")
		return
	}
	at := freeAddress(t)
	c.start("codec", "serve", "--listen", at, "--web-ui", s.stack.UIAddress).prints(t, "codec server on http://"+at)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), chromedp.Headless, chromedp.NoSandbox, chromedp.ExecPath(chromium), chromedp.UserDataDir(t.TempDir()))
	defer stop()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	open := func() {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(s.stack.UIAddress+"/namespaces/"+s.stack.Namespace+"/workflows/"+id)))
		require.Eventually(t, func() bool { return inPage[bool](t, ctx, `/agent_a|[A-Za-z0-9+\/]{80}/.test(document.body.innerText)`) }, time.Minute, 50*time.Millisecond,
			"the page shows the input, readable or encrypted")
	}
	open()
	require.NotContains(t, inPage[string](t, ctx, "document.body.innerText"), text)
	// The settings that the dialog behind the symbol of glasses stores.
	inPage[bool](t, ctx, `localStorage.setItem("endpoint", JSON.stringify("http://`+at+`")), localStorage.setItem("overrideRemoteCodecConfiguration", "true"), true`)
	open()
	require.Eventually(t, func() bool { return strings.Contains(inPage[string](t, ctx, "document.body.innerText"), text) }, time.Minute, 50*time.Millisecond)
}

// inPage evaluates an expression in the browser's page.
func inPage[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return value
}
