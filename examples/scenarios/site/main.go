// Command site serves the example of scenarios: a small shop and, behind the Chat Completions API,
// a script that plays the tester's model. With -broken the shop loses its baskets.
package main

import (
	"errors"
	"flag"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:8451", "where to listen")
	broken := flag.Bool("broken", false, "forget the baskets")
	flag.Parse()
	if err := serveShop(*address, *broken); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func serveShop(address string, broken bool) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve the shop: %w; choose another -address", err)
	}
	fmt.Printf("the shop is at http://%s, the scripted model at http://%[1]s/v1\n", listener.Addr())
	mux := http.NewServeMux()
	(&shop{broken: broken, baskets: map[string]int{}}).addRoutes(mux)
	mux.HandleFunc("POST /v1/chat/completions", completeChat)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the shop: %w", err)
	}
	return nil
}

// shop sells one kind of lamp. Customers are identified in the address, because each step of a
// scenario has its own browser, which has no cookies.
type shop struct {
	broken bool

	mu      sync.Mutex
	baskets map[string]int
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}} · The Lamp Shop</title>
<style>body{font:18px/1.6 sans-serif;max-width:34em;margin:3em auto}button{font:inherit}</style>
<h1>{{.Title}}</h1>
{{if .SignIn}}<form method="post" action="/sign-in">
<p><label>User <input name="user" autocomplete="off"></label>
<p><label>Password <input name="password" type="password"></label>
<p><button id="sign-in">Sign in</button></form>
{{else if .Said}}<p>{{.Said}}
{{else}}<p>One lamp, 40 €.
<form method="post" action="/basket?customer={{.Customer}}"><button id="buy">Put in the basket</button></form>
<form method="post" action="/empty?customer={{.Customer}}"><button id="empty">Empty the basket</button></form>
<p id="basket">Lamps in your basket: {{.Lamps}}
{{end}}</html>
`))

// view is the data for a page.
type view struct {
	Title, Customer, Said string
	SignIn                bool
	Lamps                 int
}

func (s *shop) addRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		customer := r.FormValue("customer")
		s.mu.Lock()
		lamps := s.baskets[customer]
		s.mu.Unlock()
		showPage(w, view{Title: "The Lamp Shop", Customer: customer, Lamps: lamps})
	})
	mux.HandleFunc("POST /basket", func(w http.ResponseWriter, r *http.Request) { s.putLamps(w, r, 1) })
	mux.HandleFunc("POST /empty", func(w http.ResponseWriter, r *http.Request) { s.putLamps(w, r, 0) })
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, _ *http.Request) { showPage(w, view{Title: "Sign in", SignIn: true}) })
	mux.HandleFunc("POST /sign-in", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("user") != "ada" || r.FormValue("password") != "light-of-1843" {
			w.WriteHeader(http.StatusForbidden)
			showPage(w, view{Title: "Sign in", Said: "That is not your password."})
			return
		}
		showPage(w, view{Title: "Your account", Said: "Welcome, Ada."})
	})
}

// putLamps adds lamps to a basket, or empties the basket.
func (s *shop) putLamps(w http.ResponseWriter, r *http.Request, lamps int) {
	customer := r.URL.Query().Get("customer")
	s.mu.Lock()
	switch {
	case lamps == 0:
		delete(s.baskets, customer)
	case !s.broken:
		s.baskets[customer] += lamps
	}
	s.mu.Unlock()
	http.Redirect(w, r, "/?customer="+url.QueryEscape(customer), http.StatusSeeOther)
}

func showPage(w http.ResponseWriter, v view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, v) // the reader has gone
}
