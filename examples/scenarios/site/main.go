// Command site serves what the example of scenarios needs: a small shop, and a model
// that is none, behind the Chat Completions API, which plays the tester by a script.
// With -broken the shop forgets what is put into the basket.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	address := flag.String("address", "127.0.0.1:8451", "where to listen")
	broken := flag.Bool("broken", false, "forget what is put into the basket")
	flag.Parse()
	if err := serve(*address, *broken); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func serve(address string, broken bool) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve the shop: %w; choose another -address", err)
	}
	fmt.Printf("the shop is at http://%s, the scripted model at http://%[1]s/v1\n", listener.Addr())
	mux := http.NewServeMux()
	newShop(broken).handle(mux)
	mux.HandleFunc("POST /v1/chat/completions", complete)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the shop: %w", err)
	}
	return nil
}
