package doctor

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

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/worker/cluster"
)

// defaultListen is the default address of serve.
const defaultListen = "127.0.0.1:8334"

// maxBody is the maximum size of a request, in bytes. Temporal's messages have at most 4 MiB, more in base64.
const maxBody = 16 << 20

// options are the flags of serve.
type options struct {
	listen   string
	webUIs   []string // origins whose pages may ask
	tokenEnv string
}

func serveCommand(c *cli.CLI) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Decrypt payloads for Temporal's Web UI and command line",
		Long: `Run a codec server until interrupted. Temporal's Web UI and command line send it encrypted
payloads and show what it returns. Its keys are those of ` + cluster.KeyVariable + `.

In the Web UI, enter the server's address as the codec endpoint. --web-ui names the address
of that Web UI: pages of other origins are refused.

On loopback it decrypts for this user and root only. --token-env, the name of the variable
with a token that clients send as "Authorization: Bearer TOKEN", admits everybody who has the
token instead. Any other address needs it, and a proxy in front of it that adds TLS.`,
		Example: `  conclave codec serve --web-ui http://127.0.0.1:8080
  temporal workflow show --workflow-id s1 --codec-endpoint http://127.0.0.1:8334
  conclave codec serve --listen 0.0.0.0:8334 --token-env CODEC_TOKEN --web-ui https://temporal.example.com`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return serveCodec(cmd.Context(), c, o) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&o.listen, "listen", defaultListen, "`HOST:PORT` to listen on")
	set.StringSliceVar(&o.webUIs, "web-ui", nil, "the `URL` of a Web UI that may use the server; may be repeated")
	set.StringVar(&o.tokenEnv, "token-env", "", "`NAME` of the variable with the token of clients; without it only this user is served")
	return cmd
}

func serveCodec(ctx context.Context, c *cli.CLI, o options) error {
	handler, err := o.newHandler()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with --listen", o.listen, err)
	}
	if o.tokenEnv == "" {
		if listener, err = local.ForThisUser(listener, c.Warnf, "give clients a token with --token-env"); err != nil {
			return err
		}
	}
	c.Infof("codec server on http://%s; Ctrl-C stops", listener.Addr())
	server := &http.Server{Handler: handler, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return cli.Exitf(cli.ExitNoAnswer, "serve the codec: %w", err)
	}
	return nil
}

func (o options) newHandler() (http.Handler, error) {
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return nil, fmt.Errorf("--listen is %q; it takes HOST:PORT", o.listen)
	}
	g := gate{loopback: cluster.IsLoopback(o.listen)}
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
	keys, err := cluster.CodecFromEnvironment()
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, fmt.Errorf("%s is not set; it holds the keys, and `conclave codec key` makes one", cluster.KeyVariable)
	}
	g.codec = converter.NewPayloadCodecHTTPHandler(keys)
	return g, nil
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
	if g.loopback && !cluster.IsLoopback(r.Host) {
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

// CodecCommand returns `conclave codec`.
func CodecCommand(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "codec",
		Short: "Encrypt histories: key, serve",
		Long: `Encrypt the payloads that sessions store in Temporal on a cluster. Workers and commands with
` + cluster.KeyVariable + ` in their environment encrypt with its first key; those without it
cannot read what is encrypted. docs/security.md has the details.`,
		Example: `  export ` + cluster.KeyVariable + `=$(conclave codec key 2026)
  conclave codec serve --web-ui https://temporal.example.com`,
		RunE: cli.Group,
	}
	cmd.AddCommand(keyCommand(c), serveCommand(c))
	return cmd
}

// madeKey is the JSON output of `codec key`.
type madeKey struct {
	ID    string `json:"id"`
	Value string `json:"value"` // value of the environment variable
}

func keyCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "key [ID]",
		Short: "Make a key for " + cluster.KeyVariable,
		Long: `Make a key and print it in the format of ` + cluster.KeyVariable + `. The ID, by default today's date, is
stored with every payload, so that the right one of several keys is found.

The first key encrypts, and all of them decrypt. To change the key, give every worker and
client OLD,NEW, so that all of them can read the new key's payloads, and only then NEW,OLD.
Remove the old key after the retention period of the namespace. Payloads encrypted with a
lost key stay unreadable.`,
		Example: `  conclave codec key
  export ` + cluster.KeyVariable + `="$` + cluster.KeyVariable + `,$(conclave codec key 2027)"
  kubectl create secret generic conclave-payload --from-literal=key="$(conclave codec key)"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			id := time.Now().UTC().Format(time.DateOnly)
			if len(args) > 0 {
				id = args[0]
			}
			value, err := cluster.NewCodecKey(id)
			if err != nil {
				return err
			}
			if c.Scripted() {
				return c.PrintJSON(madeKey{id, value})
			}
			return c.Print(value + "\n")
		},
	}
}
