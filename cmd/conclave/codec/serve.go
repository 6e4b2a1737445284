package codec

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/converter"

	"conclave/cmd/conclave/devserver/peer"
	"conclave/cmd/conclave/hall"
	"conclave/worker/codec"
)

// defaultListen is the default address of serve.
const defaultListen = "127.0.0.1:8334"

// maxBody is the maximum size of a request, in bytes. Temporal's messages have at most 4 MiB, more
// in base64.
const maxBody = 16 << 20

// options are the flags of serve.
type options struct {
	listen   string
	webUIs   []string // origins whose pages may ask
	tokenEnv string
}

func serveCommand(c *hall.CLI) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Decrypt payloads for Temporal's Web UI and command line",
		Long: `Run a codec server until interrupted. Temporal's Web UI and command line send it encrypted
payloads and show what it returns. Its keys are those of ` + codec.Variable + `.

In the Web UI, enter the server's address as the codec endpoint. --web-ui names the address
of that Web UI: pages of other origins are refused.

On loopback it decrypts for this user and root only. --token-env, the name of the variable
with a token that clients send as "Authorization: Bearer TOKEN", admits everybody who has the
token instead. Any other address needs it, and a proxy in front of it that adds TLS.`,
		Example: `  conclave codec serve --web-ui http://127.0.0.1:8080
  temporal workflow show --workflow-id s1 --codec-endpoint http://127.0.0.1:8334
  conclave codec serve --listen 0.0.0.0:8334 --token-env CODEC_TOKEN --web-ui https://temporal.example.com`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), c, o) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&o.listen, "listen", defaultListen, "`HOST:PORT` to listen on")
	set.StringSliceVar(&o.webUIs, "web-ui", nil, "the `URL` of a Web UI that may use the server; may be repeated")
	set.StringVar(&o.tokenEnv, "token-env", "", "`NAME` of the variable with the token of clients; without it only this user is served")
	return cmd
}

func serve(ctx context.Context, c *hall.CLI, o options) error {
	handler, err := o.handler()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen", o.listen, err)
	}
	if o.tokenEnv == "" {
		if listener, err = peer.ForThisUser(listener, c.Warnf, "give clients a token with --token-env"); err != nil {
			return err
		}
	}
	c.Infof("codec server on http://%s; Ctrl-C stops", listener.Addr())
	server := &http.Server{Handler: handler, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return hall.Exitf(hall.ExitNoAnswer, "serve the codec: %w", err)
	}
	return nil
}

// handler checks the flags and returns the server's handler.
func (o options) handler() (http.Handler, error) {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen is %q; it takes HOST:PORT", o.listen)
	}
	g := gate{loopback: isLoopback(host)}
	for _, page := range o.webUIs {
		u, err := url.Parse(page)
		if err != nil || u.Scheme == "" || u.Host == "" {
			return nil, fmt.Errorf("--web-ui is %q; it takes the address of a Web UI, such as https://temporal.example.com", page)
		}
		g.origins = append(g.origins, u.Scheme+"://"+u.Host)
	}
	switch {
	case o.tokenEnv != "":
		if g.token = os.Getenv(o.tokenEnv); g.token == "" {
			return nil, fmt.Errorf("the environment variable %s, which holds the token of clients, is not set", o.tokenEnv)
		}
	case !g.loopback:
		return nil, fmt.Errorf("everybody who reaches %s could decrypt; give --token-env, or listen on %s", o.listen, defaultListen)
	}
	keys, err := codec.FromEnvironment()
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("%s is not set; it holds the keys, and `conclave codec key` makes one", codec.Variable)
	}
	g.codec = converter.NewPayloadCodecHTTPHandler(keys)
	return g, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// gate admits requests to the codec.
type gate struct {
	codec    http.Handler
	loopback bool
	origins  []string // origins of Web UIs
	token    string   // empty on loopback without one
}

// ServeHTTP refuses pages of other origins. On loopback it also refuses other host names,
// through which a page could pretend to have this origin.
func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if g.loopback && !isLoopback(host) {
		http.Error(w, "this server listens on loopback; use http://127.0.0.1", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if !slices.Contains(g.origins, origin) {
			http.Error(w, "pages of "+origin+" are not admitted; name them with --web-ui", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Vary", "Origin")
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	sent, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if g.token != "" && subtle.ConstantTimeCompare([]byte(sent), []byte(g.token)) != 1 {
		http.Error(w, "the token is missing or wrong; send it as Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	g.codec.ServeHTTP(w, r)
}
