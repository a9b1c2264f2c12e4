// late.go - opens the first device from a goroutine.
package main

// #cgo LDFLAGS: -ldl
// #include "late.c"
import "C"
import "os"

func main() {
	opened := make(chan bool)
	go func() { opened <- C.late() == 1 }()
	if !<-opened {
		os.Exit(1)
	}
}
