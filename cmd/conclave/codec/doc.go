// Package codec implements `conclave codec`: key makes a key for the encryption of histories, serve
// decrypts payloads for Temporal's Web UI and command line. The encryption is in package
// worker/codec. Start with Command in command.go.
package codec
