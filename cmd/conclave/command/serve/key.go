package serve

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/view/web"
	"conclave/workflows"
)

// madeKey is the JSON output of serve key.
type madeKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Line string `json:"line"` // line for the file of --keys
}

func keyCommand(c *cli.CLI) *cobra.Command {
	var by access.Caller
	cmd := &cobra.Command{
		Use:   "key NAME",
		Short: "Make a key for a caller of serve",
		Long: `Make a key. The line for the file of --keys is printed on stdout; it has only the
hash of the key. The key itself is printed on stderr, once: give it to the caller.
A server that runs reads the file again when it changes: without its line a key is
refused from the next request on.`,
		Example: `  conclave serve key alice >> keys
  conclave serve key ci --teams default,reviewers --requests-per-minute 30 --usd-per-day 5 >> keys
  conclave serve key --json alice | jq -r .key`,
		Args: cli.Arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			by.Name = args[0]
			return makeKey(c, by)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&by.Teams, "teams", nil, "the `TEAMS` that the caller may ask, separated by commas (default all)")
	set.IntVar(&by.PerMinute, "requests-per-minute", 0, "at most `N` requests in a minute (default no limit)")
	set.Float64Var(&by.USDPerDay, "usd-per-day", 0, "at most `N` dollars for the sessions of a day, UTC (default no limit)")
	return cmd
}

func makeKey(c *cli.CLI, by access.Caller) error {
	if err := access.CheckName(by.Name); err != nil {
		return err
	}
	for _, t := range by.Teams {
		if t == "" || strings.ContainsAny(t, ": ,#\n") {
			return fmt.Errorf("the team %q has a character that names of teams cannot have", t)
		}
	}
	if by.PerMinute < 0 || by.USDPerDay < 0 {
		return fmt.Errorf("a limit is below 0; leave it out for none")
	}
	if math.IsNaN(by.USDPerDay) || math.IsInf(by.USDPerDay, 0) {
		return fmt.Errorf("--usd-per-day is %v, not an amount of dollars; leave it out for no limit", by.USDPerDay)
	}
	key, line := access.NewKey(by)
	if c.Scripted() {
		return c.PrintJSON(madeKey{by.Name, key, line})
	}
	c.Infof("the key of %s, shown only now: %s", by.Name, key)
	return c.Print(line + "\n")
}

// ownPages limits the holder of a key to the sessions started with the key, as in the API and the tools.
// Requests that start model calls are also limited by the key's budget. Without keys the pages show all runs.
func ownPages(d *gateway.Desk, pages http.Handler) http.Handler {
	session := func(w http.ResponseWriter, r *http.Request) {
		by, id := access.From(r.Context()), r.PathValue("id")
		_, err := d.Find(r.Context(), by, id)
		if err == nil && r.Method == http.MethodPost && r.PathValue("rest") == workflows.RetrySignal {
			err = d.ChargeRetry(r.Context(), by, id)
		}
		if err != nil {
			web.SendProblem(w, statusOf(err), err.Error())
			return
		}
		pages.ServeHTTP(w, r)
	}
	own := http.NewServeMux()
	own.Handle("/{$}", pages) // lists the caller's sessions alone
	own.Handle("/ask", pages)
	own.HandleFunc("/sessions/{id}", session)
	own.HandleFunc("/sessions/{id}/{rest...}", session)
	own.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		web.SendProblem(w, http.StatusNotFound, "a key shows the sessions that it has started, and no other page")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.From(r.Context()).Name == "" {
			pages.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

func statusOf(err error) int {
	if refused, ok := errors.AsType[*gateway.Refusal](err); ok {
		return refused.Status
	}
	return http.StatusBadGateway
}

// Limits of connections. A reply may take hours, so only its parts have deadlines.
const (
	headerTime = 10 * time.Second
	bodyTime   = 30 * time.Second // time in which the body of a request must arrive
	writeTime  = 30 * time.Second // time in which a client must take a part of a reply
	idleTime   = 2 * time.Minute
	maxHeaders = 64 << 10 // most bytes of headers
	maxPart    = 64 << 10 // bytes of a reply
)

func boundedServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: boundedBody(handler), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeaders,
	}
}

// boundedBody breaks connections whose request body does not arrive in time, even if the
// handler replied without reading it.
func boundedBody(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // recorders of tests have no deadlines
			r.Body = body{r.Body, func() { _ = control.SetReadDeadline(time.Time{}) }}
		}
		handler.ServeHTTP(w, r)
	})
}

// body is a request body with a read deadline, which is removed at its end.
type body struct {
	io.ReadCloser
	arrived func()
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.arrived()
	}
	return n, err
}

// boundedListener is a listener whose connections break if a client stops reading.
type boundedListener struct{ net.Listener }

func (l boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return boundedConn{conn}, nil
}

// boundedConn is a connection with a deadline for each part that it writes.
type boundedConn struct{ net.Conn }

func (c boundedConn) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		if err = c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			break
		}
		var n int
		n, err = c.Conn.Write(p[written:min(len(p), written+maxPart)])
		written += n
	}
	return written, err
}

// CloseWrite allows net/http to close a connection without losing the reply to a request
// whose body has not fully arrived.
func (c boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
