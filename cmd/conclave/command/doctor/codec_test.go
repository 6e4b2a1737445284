package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"conclave/cmd/conclave/cli"
	"conclave/worker/cluster"
)

func TestKey(t *testing.T) {
	s := newShell(t)
	code, out, _ := s.Run("codec", "key", "2026")
	require.Equal(t, cli.ExitOK, code)
	require.Regexp(t, `^2026:[A-Za-z0-9+/]{43}=\n$`, out)
	_, err := cluster.ParseCodecKey(strings.TrimSpace(out))
	require.NoError(t, err)
	code, out, _ = s.Run("codec", "key", "--json")
	require.Equal(t, cli.ExitOK, code)
	var made madeKey
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.Regexp(t, `^\d{4}-\d{2}-\d{2}$`, made.ID)
	require.True(t, strings.HasPrefix(made.Value, made.ID+":"))
}

func TestServe_refusals(t *testing.T) {
	s := newShell(t)
	t.Setenv("EMPTY_TOKEN", "")
	t.Setenv("SOME_TOKEN", "t")
	for line, says := range map[string]string{
		"codec key a:b":                "not the ID of a key",
		"codec serve":                  "CONCLAVE_PAYLOAD_KEY is not set",
		"codec serve --listen 8334":    "it takes HOST:PORT",
		"codec serve --listen :8334":   "everybody who reaches :8334 could decrypt; give --token-env",
		"codec serve --web-ui ui:8080": "it takes the address of a Web UI",
		"codec serve --listen 0.0.0.0:1 --token-env EMPTY_TOKEN": "the environment variable EMPTY_TOKEN, which holds the token of clients, is not set",
		"codec serve --listen 0.0.0.0:1 --token-env SOME_TOKEN":  "CONCLAVE_PAYLOAD_KEY is not set",
		"codec serv": "did you mean `conclave codec serve`?",
	} {
		code, _, stderr := s.Run(strings.Fields(line)...)
		require.Equal(t, cli.ExitUsage, code, line)
		require.Contains(t, stderr, says, line)
	}
}

func request(t *testing.T, h http.Handler, path string, p *commonpb.Payloads, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	body, err := protojson.Marshal(p)
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8334"+path, strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestServe_decryptsForAdmittedClients(t *testing.T) {
	key, err := cluster.NewCodecKey("k")
	require.NoError(t, err)
	t.Setenv(cluster.KeyVariable, key)
	t.Setenv("CODEC_TOKEN", "right")
	keys, err := cluster.ParseCodecKey(key)
	require.NoError(t, err)
	plain, err := converter.GetDefaultDataConverter().ToPayloads("the query")
	require.NoError(t, err)
	encrypted, err := keys.Encode(plain.GetPayloads())
	require.NoError(t, err)
	sealed := &commonpb.Payloads{Payloads: encrypted}

	local, err := options{listen: defaultListen, webUIs: []string{"http://127.0.0.1:8080/namespaces"}}.newHandler()
	require.NoError(t, err)
	remote, err := options{listen: "0.0.0.0:8334", tokenEnv: "CODEC_TOKEN"}.newHandler()
	require.NoError(t, err)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, tt := range map[string]struct {
		handler http.Handler
		change  func(*http.Request)
		status  int
	}{
		"the command line":        {local, nil, http.StatusOK},
		"the Web UI":              {local, header("Origin", "http://127.0.0.1:8080"), http.StatusOK},
		"a page of somebody else": {local, header("Origin", "https://evil.example"), http.StatusForbidden},
		"a name that is rebound":  {local, func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"without the token":       {remote, nil, http.StatusUnauthorized},
		"with a wrong token":      {remote, header("Authorization", "Bearer wrong"), http.StatusUnauthorized},
		"with the token":          {remote, header("Authorization", "Bearer right"), http.StatusOK},
		"a page without --web-ui": {remote, header("Origin", "http://127.0.0.1:8080"), http.StatusForbidden},
		"a preflight of the Web UI": {local, func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Set("Origin", "http://127.0.0.1:8080")
		}, http.StatusNoContent},
	} {
		w := request(t, tt.handler, "/decode", sealed, tt.change)
		require.Equal(t, tt.status, w.Code, "%s: %s", name, w.Body)
		if tt.status == http.StatusOK {
			var got commonpb.Payloads
			require.NoError(t, protojson.Unmarshal(w.Body.Bytes(), &got), name)
			require.Equal(t, `"the query"`, string(got.GetPayloads()[0].GetData()), name)
		} else {
			require.NotContains(t, w.Body.String(), "query", name)
		}
	}
	w := request(t, local, "/decode", sealed, header("Origin", "http://127.0.0.1:8080"))
	require.Equal(t, "http://127.0.0.1:8080", w.Header().Get("Access-Control-Allow-Origin"))
	w = request(t, local, "/encode", plain, nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "the query")
}

// On a shared host everybody can connect to loopback: without a token, the payloads are decrypted
// for this user and root only.
func TestServe_refusesOtherUsersOfThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	key, err := cluster.NewCodecKey("k")
	require.NoError(t, err)
	t.Setenv(cluster.KeyVariable, key)
	t.Setenv("CODEC_TOKEN", "right")
	for tokenEnv, tc := range map[string]struct{ nobody, root string }{
		"":            {"", "HTTP/"},
		"CODEC_TOKEN": {"HTTP/", "HTTP/"},
	} {
		stderr, written := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := &cli.CLI{Stderr: written}
		go func() { ended <- serveCodec(ctx, c, options{listen: "127.0.0.1:0", tokenEnv: tokenEnv}) }()
		lines := bufio.NewScanner(stderr)
		require.True(t, lines.Scan())
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(lines.Text())
		warned := make(chan string, 8)
		go func() {
			for lines.Scan() {
				warned <- lines.Text()
			}
		}()
		require.Equal(t, tc.nobody, ask(t, 65534, address), tokenEnv)
		require.Equal(t, tc.root, ask(t, 0, address), tokenEnv)
		if tokenEnv == "" {
			require.Equal(t, "conclave: refused a connection of user 65534 of this machine; to admit others, give clients a token with --token-env", <-warned)
		}
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, written.Close())
	}
}

func ask(t *testing.T, uid uint32, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%s && cat >&3 && head -c 5 <&3", host, port))
	cmd.Stdin = strings.NewReader("POST /decode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: uid == 0}}
	reply, _ := cmd.Output() // a refused connection is reset
	return string(reply)
}
