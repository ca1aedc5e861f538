;; The inner loop of the text decoder, sixteen characters at a time (WebAssembly 2.0, 128-bit SIMD).
;; text-kernel.ts holds the compiled module; test/unit-and-integration/firmware/text/text-kernel.integration.test.ts compares the two.
;; Addresses are bytes in memory; `end` is the first one that is not input. Callers keep the ranges apart.
(module
  (memory (export "memory") 3)
  ;; How many bytes the last call wrote.
  (global $written (export "written") (mut i32) (i32.const 0))

  ;; Copies the inside of a JSON string, resolving the escapes that firmware text may have, without spaces and escaped white
  ;; space. Returns where it stopped: the end, a quotation mark, or an escape that is cut off or not known here.
  (func (export "unescape") (param $at i32) (param $end i32) (param $out i32) (result i32)
    (local $start i32) (local $block v128) (local $found i32) (local $character i32) (local $length i32)
    (local.set $start (local.get $out))
    (block $stop
      (loop $next
        (if (i32.le_u (i32.add (local.get $at) (i32.const 16)) (local.get $end))
          (then
            (local.set $block (v128.load align=1 (local.get $at)))
            (v128.store align=1 (local.get $out) (local.get $block))
            (local.set $found (i8x16.bitmask (v128.or
              (i8x16.eq (local.get $block) (i8x16.splat (i32.const 0x20)))
              (v128.or
                (i8x16.eq (local.get $block) (i8x16.splat (i32.const 0x22)))     ;; "
                (i8x16.eq (local.get $block) (i8x16.splat (i32.const 0x5c))))))) ;; \
            (if (i32.eqz (local.get $found))
              (then
                (local.set $at (i32.add (local.get $at) (i32.const 16)))
                (local.set $out (i32.add (local.get $out) (i32.const 16)))
                (br $next)))
            (local.set $at (i32.add (local.get $at) (i32.ctz (local.get $found))))
            (local.set $out (i32.add (local.get $out) (i32.ctz (local.get $found))))))
        (br_if $stop (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $character (i32.load8_u (local.get $at)))
        (br_if $stop (i32.eq (local.get $character) (i32.const 0x22)))
        (local.set $length (i32.const 1))
        (if (i32.eq (local.get $character) (i32.const 0x5c))
          (then
            (local.set $character (call $escaped (local.get $at) (local.get $end)))
            (br_if $stop (i32.lt_s (local.get $character) (i32.const 0)))
            (local.set $length (select (i32.const 6) (i32.const 2)
              (i32.eq (i32.load8_u offset=1 (local.get $at)) (i32.const 0x75))))))
        (local.set $at (i32.add (local.get $at) (local.get $length)))
        (if (i32.ne (local.get $character) (i32.const 0x20))
          (then
            (i32.store8 (local.get $out) (local.get $character))
            (local.set $out (i32.add (local.get $out) (i32.const 1)))))
        (br $next)))
    (global.set $written (i32.sub (local.get $out) (local.get $start)))
    (local.get $at))

  ;; The character of \/ or of \u00XX for printable ASCII; a space for \n \r \t and \u00XX of white space; else -1.
  (func $escaped (param $at i32) (param $end i32) (result i32)
    (local $character i32)
    (if (i32.gt_u (i32.add (local.get $at) (i32.const 2)) (local.get $end)) (then (return (i32.const -1))))
    (local.set $character (i32.load8_u offset=1 (local.get $at)))
    (if (i32.eq (local.get $character) (i32.const 0x2f)) (then (return (i32.const 0x2f)))) ;; /
    (if (i32.eq (local.get $character) (i32.const 0x6e)) (then (return (i32.const 0x20)))) ;; n
    (if (i32.eq (local.get $character) (i32.const 0x72)) (then (return (i32.const 0x20)))) ;; r
    (if (i32.eq (local.get $character) (i32.const 0x74)) (then (return (i32.const 0x20)))) ;; t
    (if (i32.ne (local.get $character) (i32.const 0x75)) (then (return (i32.const -1))))   ;; u
    (if (i32.gt_u (i32.add (local.get $at) (i32.const 6)) (local.get $end)) (then (return (i32.const -1))))
    (if (i32.ne (i32.load16_u offset=2 align=1 (local.get $at)) (i32.const 0x3030)) (then (return (i32.const -1))))
    (local.set $character (i32.or
      (i32.shl (call $digit (i32.load8_u offset=4 (local.get $at))) (i32.const 4))
      (call $digit (i32.load8_u offset=5 (local.get $at)))))
    (if (i32.gt_u (local.get $character) (i32.const 0x7e)) (then (return (i32.const -1))))
    (if (i32.ge_u (local.get $character) (i32.const 0x20)) (then (return (local.get $character))))
    (select (i32.const 0x20) (i32.const -1)
      (i32.and (i32.shr_u (i32.const 0x2600) (local.get $character)) (i32.const 1)))) ;; tab, line feed, carriage return

  ;; The value of a hexadecimal digit; 255 for anything else.
  (func $digit (param $character i32) (result i32)
    (local $value i32)
    (local.set $value (i32.sub (local.get $character) (i32.const 0x30)))
    (if (i32.lt_u (local.get $value) (i32.const 10)) (then (return (local.get $value))))
    (local.set $value (i32.sub (i32.or (local.get $character) (i32.const 0x20)) (i32.const 0x61)))
    (select (i32.add (local.get $value) (i32.const 10)) (i32.const 255) (i32.lt_u (local.get $value) (i32.const 6)))))
