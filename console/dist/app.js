// node_modules/preact/dist/preact.mjs
var n;
var t;
var r;
var u;
var i;
var f;
var o;
var e;
var l;
var c;
var a;
var s;
var h = /* @__PURE__ */ Symbol.for("pv");
var p = {};
var y = [];
var v = /^m(i|n|o|s|text|space)$/;
var w = Array.isArray;
var d = y.slice;
var _ = Object.assign;
function g(n3) {
  n3 && n3.parentNode && n3.remove();
}
function k(n3, t4, r4) {
  var u4, i4, f5, o5 = {}, e4 = arguments.length;
  for (f5 in t4) "key" == f5 ? u4 = t4[f5] : "ref" == f5 && "function" != typeof n3 ? i4 = t4[f5] : o5[f5] = t4[f5];
  return e4 > 2 && (o5.children = e4 > 3 ? d.call(arguments, 2) : r4), m(n3, o5, u4, i4, null);
}
function m(r4, u4, i4, f5, o5) {
  var e4 = { type: r4, props: u4, key: i4, ref: f5, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: o5 || ++t, __i: -1, __u: 0 };
  return !o5 && n.vnode && n.vnode(e4), e4;
}
function $(n3) {
  return n3.children;
}
function x(n3, t4) {
  this.props = n3, this.context = t4, this.__g = 0;
}
function S(n3, t4) {
  if (null == t4) return n3.__ && S(n3.__, n3.__i + 1);
  for (var r4; t4 < n3.__k.length; t4++) if ((r4 = n3.__k[t4]) && r4.__e) return r4.__e;
  return "function" != typeof n3.type || n3.props.__P ? null : S(n3);
}
function C(t4) {
  var r4, u4 = t4.__v, i4 = u4.__e, f5 = [], o5 = [], e4 = t4.__P;
  e4 && ((r4 = _({ constructor: h }, u4)).__v = u4.__v + 1, n.vnode && n.vnode(r4), z(e4, r4, u4, t4.__n, e4.namespaceURI, 32 & u4.__u ? [i4] : null, f5, i4 || S(u4), 32 & u4.__u, o5), r4.__v = u4.__v, r4.__.__k[r4.__i] = r4, E(f5, r4, o5), u4.__ = u4.__e = null, r4.__e != i4 && j(r4));
}
function j(n3) {
  if ((n3 = n3.__) && n3.__c && !n3.props.__P) return n3.__e = null, n3.__k.some(function(t4) {
    return t4 && (n3.__e = t4.__e);
  }), j(n3);
}
function L(t4) {
  (8 & t4.__g || (t4.__g |= 8, u.push(t4), f++)) && i == n.debounceRendering || ((i = n.debounceRendering) || queueMicrotask)(H);
}
function H() {
  try {
    for (var n3, t4 = 1; u.length; ) u.length > t4 && u.sort(o), n3 = u.shift(), t4 = u.length, 8 & n3.__g && C(n3);
  } finally {
    (f = u.length) && (i || queueMicrotask)(H);
  }
}
function I(n3, t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
  var s4, h5, v4, w5, d4, _3, g5 = u4.__k || y, k4 = t4.length;
  for (l4 = q(r4, t4, g5, l4, k4), s4 = 0; s4 < k4; s4++) null != (v4 = r4.__k[s4]) && (h5 = ~v4.__i && g5[v4.__i] || p, v4.__i = s4, _3 = z(n3, v4, h5, i4, f5, o5, e4, l4, c4, a5), w5 = v4.__e, (h5.ref != v4.ref || 8 & h5.__u) && (h5.ref && G(h5.ref, null, v4, h5), v4.ref && a5.push(v4.ref, v4.__c || w5, v4)), d4 = d4 || w5, 4 & v4.__u ? (l4 = A(v4, l4, n3, !h5.__v), h5.__e && (h5.__e = null)) : "function" == typeof v4.type && void 0 !== _3 ? l4 = _3 : w5 && (l4 = w5.nextSibling), v4.__u &= -21);
  return r4.__e = d4, l4;
}
function q(n3, t4, r4, u4, i4) {
  var f5, o5, e4, l4, c4, a5, s4, p5, y5, v4 = r4.length, d4 = v4, _3 = 0, g5 = 0, k4 = n3.__k = Array(i4);
  for (f5 = 0; f5 < i4; f5++) null != (o5 = t4[f5]) && "boolean" != typeof o5 && "function" != typeof o5 ? ("object" != typeof o5 || o5.constructor === String ? o5 = k4[f5] = m(null, o5) : w(o5) ? o5 = k4[f5] = m($, { children: o5 }) : o5.constructor === h && o5.__b ? o5 = k4[f5] = m(o5.type, o5.props, o5.key, o5.ref, o5.__v) : k4[f5] = o5, l4 = f5 + _3, o5.__ = n3, o5.__b = n3.__b + 1, e4 = null, ~(c4 = o5.__i = P(o5, r4, l4, d4)) && (d4--, (e4 = r4[c4]) && (e4.__u |= 2)), e4 && e4.__v ? (o5.__u |= 16, c4 == l4 - 1 ? _3-- : c4 == l4 + 1 ? _3++ : c4 != l4 && (c4 > l4 ? _3-- : _3++, g5 = 1)) : (~c4 || (i4 > v4 ? _3-- : i4 < v4 && _3++), "function" != typeof o5.type && (o5.__u |= 4))) : k4[f5] = null;
  if (g5) {
    for (a5 = [], s4 = [], f5 = 0; f5 < i4; f5++) if ((o5 = k4[f5]) && 16 & o5.__u) {
      for (_3 = 0, p5 = a5.length; _3 < p5; ) a5[y5 = _3 + p5 >> 1] < o5.__i ? _3 = y5 + 1 : p5 = y5;
      a5[_3] = o5.__i, s4[f5] = _3 + 1;
    }
    for (_3 = a5.length; f5--; ) s4[f5] && (s4[f5] == _3 ? _3-- : k4[f5].__u |= 4);
  }
  if (d4) for (f5 = 0; f5 < v4; f5++) !(e4 = r4[f5]) || 2 & e4.__u || (e4.__e == u4 && (u4 = S(e4)), J(e4, e4));
  return u4;
}
function A(n3, t4, r4, u4) {
  var i4, f5, o5, e4;
  if ("function" == typeof n3.type) {
    if (n3.props.__P) return t4;
    if (i4 = n3.__k) for (f5 = 0; f5 < i4.length; f5++) i4[f5] && (i4[f5].__ = n3, t4 = A(i4[f5], t4, r4, false));
    return t4;
  }
  for (t4 && !t4.parentNode && (t4 = S(n3)) && !t4.parentNode && (t4 = null), o5 = n3.__e, e4 = t4; e4 && 8 == e4.nodeType; ) e4 = e4.nextSibling;
  for (o5 != e4 && (!u4 && r4.moveBefore && o5.parentNode ? r4.moveBefore(o5, t4) : r4.insertBefore(o5, t4 || null)), t4 = o5; (t4 = t4 && t4.nextSibling) && 8 == t4.nodeType && !t4.data.startsWith("$s"); ) ;
  return t4;
}
function P(n3, t4, r4, u4) {
  var i4, f5 = n3.key, o5 = n3.type, e4 = t4[r4], l4 = e4 && !(2 & e4.__u);
  if (null === e4 && null == f5 || l4 && f5 == e4.key && o5 == e4.type) return r4;
  if (u4 > (l4 ? 1 : 0)) {
    for (i4 = r4 - 1; i4 >= 0; i4--) if ((e4 = t4[i4]) && !(2 & e4.__u) && f5 == e4.key && o5 == e4.type) return i4;
    for (i4 = r4 + 1; i4 < t4.length; i4++) if ((e4 = t4[i4]) && !(2 & e4.__u) && f5 == e4.key && o5 == e4.type) return i4;
  }
  return -1;
}
function T(n3, t4, r4) {
  null == r4 && (r4 = ""), "-" == t4[0] ? n3.setProperty(t4, r4) : n3[t4] = r4;
}
function N(n3, t4, r4, u4, i4) {
  var f5, o5;
  if ("style" == t4) if ("string" == typeof r4) n3.style.cssText = r4;
  else {
    if ("string" == typeof u4 && (n3.style.cssText = u4 = ""), u4) for (t4 in u4) r4 && t4 in r4 || T(n3.style, t4);
    if (r4) for (t4 in r4) u4 && r4[t4] == u4[t4] || T(n3.style, t4, r4[t4]);
  }
  else if ("o" == t4[0] && "n" == t4[1]) "function" != typeof r4 && (r4 = null), "function" != typeof u4 && (u4 = null), (n3.__e || (n3.__e = {}))[t4] = r4, r4 && u4 || (o5 = a[t4] || (a[t4] = V(t4)), (n3.__a || (n3.__a = {}))[t4] = c, f5 = t4 != (t4 = t4.replace(l, "$1")), (t4 = t4.slice(2))[0] < "a" && (t4 = t4.toLowerCase()), r4 ? n3.addEventListener(t4, o5, f5) : n3.removeEventListener(t4, o5, f5));
  else {
    if ("http://www.w3.org/2000/svg" == i4) t4 = t4.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if ("width" != t4 && "height" != t4 && "href" != t4 && "list" != t4 && "form" != t4 && "tabIndex" != t4 && "download" != t4 && "rowSpan" != t4 && "colSpan" != t4 && "role" != t4 && "popover" != t4 && t4 in n3) try {
      return void (n3[t4] = null == r4 ? "" : r4);
    } catch (n4) {
    }
    if ("function" == typeof r4) return;
    null == r4 || false === r4 && "-" != t4[4] ? n3.removeAttribute(t4) : n3.setAttribute(t4, "popover" == t4 && 1 == r4 ? "" : r4);
  }
}
function V(t4) {
  return function(r4) {
    var u4 = this.__e;
    if (u4) {
      if (u4 = u4[t4], null == r4[e]) r4[e] = c++;
      else if (r4[e] < this.__a[t4]) return;
      return u4(n.event ? n.event(r4) : r4);
    }
  };
}
function z(t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
  var s4, p5, v4, d4, k4, b3, m5, M2, C3, j3, L2, H2, q2, A4, O2, P2, T4, N2, V2 = r4.type;
  if (r4.constructor !== h) return null;
  128 & u4.__u && (c4 = 32 & u4.__u, s4 = u4.__c.__z) && (r4.__u |= c4, p5 = o5 = [], 8 == s4.nodeType ? l4 = B(s4, o5) : o5.push(s4), l4 = o5[0] || l4), (s4 = n.__b) && s4(r4);
  n: if ("function" == typeof V2) {
    v4 = e4.length;
    try {
      if (M2 = r4.props, C3 = (s4 = V2.prototype) && s4.render, j3 = (s4 = V2.contextType) && i4[s4.__c], L2 = s4 ? j3 ? j3.props.value : s4.__ : i4, (d4 = u4.__c) ? (r4.__c = d4, 2 & d4.__g && (d4.__g |= 1)) : (C3 ? r4.__c = d4 = new V2(M2, L2) : (r4.__c = d4 = new x(M2, L2), d4.constructor = V2, d4.render = K), j3 && j3.sub(d4), d4.state || (d4.state = {}), d4.__n = i4, d4.__g |= 8, d4.__h = [], d4.__k = []), C3 && (d4.__s || (d4.__s = d4.state), V2.getDerivedStateFromProps && (d4.__s == d4.state && (d4.__s = _({}, d4.__s)), _(d4.__s, V2.getDerivedStateFromProps(M2, d4.__s)))), k4 = d4.props, b3 = d4.state, d4.__v = r4, u4.__c) {
        if (M2 !== k4 && C3 && !V2.getDerivedStateFromProps && d4.componentWillReceiveProps && d4.componentWillReceiveProps(M2, L2), r4.__v == u4.__v && !(8 & d4.__g) || !(4 & d4.__g) && d4.shouldComponentUpdate && false === d4.shouldComponentUpdate(M2, d4.__s, L2)) {
          r4.__v != u4.__v && (d4.props = M2, d4.state = d4.__s, d4.__g &= -9), r4.__e = u4.__e, r4.__k = u4.__k, r4.__k.some(function(n3) {
            n3 && (n3.__ = r4);
          }), y.push.apply(d4.__h, d4.__k), d4.__k = [], d4.__h.length && e4.push(d4), l4 = S(u4);
          break n;
        }
        d4.componentWillUpdate && d4.componentWillUpdate(M2, d4.__s, L2), C3 && d4.componentDidUpdate && d4.__h.push(function() {
          d4.componentDidUpdate(k4, b3, m5);
        });
      } else C3 && !V2.getDerivedStateFromProps && d4.componentWillMount && d4.componentWillMount(), C3 && d4.componentDidMount && d4.__h.push(d4.componentDidMount);
      d4.context = L2, d4.props = M2, d4.__P = t4, d4.__g &= -5, H2 = n.__r, q2 = C3 ? 25 : 0;
      do {
        d4.__g &= -9, H2 && H2(r4), s4 = d4.render(d4.props, d4.state = d4.__s, d4.context);
      } while (8 & d4.__g && ++q2 < 25);
      C3 && (y.push.apply(d4.__h, d4.__k), d4.__k = []), d4.state = d4.__s, d4.getChildContext && (i4 = _({}, i4, d4.getChildContext())), C3 && u4.__c && d4.getSnapshotBeforeUpdate && (m5 = d4.getSnapshotBeforeUpdate(k4, b3)), A4 = s4 && s4.type === $ && null == s4.key ? s4.props.children : s4, M2.__P && (s4 = l4, f5 = (t4 = M2.__P).namespaceURI, c4 = o5 = null, u4.props && u4.props.__P != t4 && (u4.__k.some(function(n3) {
        n3 && J(n3, n3);
      }), u4.__k = null), l4 = u4.__k ? S(u4, 0) : null), l4 = I(t4, w(A4) ? A4 : [A4], r4, u4, i4, f5, o5, e4, l4, c4, a5), M2.__P && (r4.__e = null, l4 = s4), r4.__u &= -161, p5 && p5.some(g), d4.__h.length && e4.push(d4), 1 & d4.__g && (d4.__g &= -4);
    } catch (t5) {
      if (e4.length = v4, r4.__v = null, c4 || o5) if (t5 && t5.then) {
        if (r4.__u |= 128 | c4, o5) {
          for (~(T4 = o5.indexOf(l4 || void 0)) || (T4 = o5.length); (N2 = o5[T4 - 1]) && 8 == N2.nodeType; ) T4--;
          for (; T4 < o5.length; T4++) if (N2 = o5[T4]) if (o5[T4] = null, O2) {
            if (N2 == P2) break;
          } else {
            if (8 != N2.nodeType) break;
            N2.data.startsWith("$s") && (P2 = B(O2 = N2));
          }
        }
        if (!O2) {
          for (; l4 && 8 == l4.nodeType && l4.nextSibling; ) l4 = l4.nextSibling;
          O2 = l4;
        }
        (s4 = B(O2 = r4.__c.__z || (r4.__c.__z = O2))) ? (r4.__e = O2, l4 = s4) : r4.__e = l4, l4 = l4 && l4.nextSibling;
      } else o5 && o5.some(g);
      else r4.__e = u4.__e;
      r4.__k || (r4.__k = u4.__k || []), t5 && t5.then || D(r4), n.__e(t5, r4, u4);
    }
  } else l4 = r4.__e = F(u4.__e, r4, u4, i4, f5, o5, e4, c4, a5, t4);
  return (s4 = n.diffed) && s4(r4), l4;
}
function B(n3, t4) {
  if (n3 && 8 == n3.nodeType && n3.data.startsWith("$s")) for (var r4 = 1; n3 = n3.nextSibling; ) {
    if (8 == n3.nodeType) {
      if (n3.data.startsWith("$s")) r4++;
      else if (n3.data.startsWith("/$s") && !--r4) return n3;
    }
    t4 && t4.push(n3);
  }
}
function D(n3) {
  n3 && (n3.__c && (n3.__c.__g |= 4), n3.__k && n3.__k.some(D));
}
function E(t4, r4, u4) {
  for (var i4 = 0; i4 < u4.length; ) G(u4[i4++], u4[i4++], u4[i4++]);
  n.__c && n.__c(r4, t4), t4.some(function(r5) {
    try {
      t4 = r5.__h, r5.__h = [], t4.some(function(n3) {
        n3.call(r5);
      });
    } catch (t5) {
      n.__e(t5, r5.__v);
    }
  });
}
function F(t4, r4, u4, i4, f5, o5, e4, l4, c4, a5) {
  var s4, h5, y5, _3, k4, b3, m5, M2, $2 = u4.props || p, x3 = r4.props, C3 = r4.type;
  if ("svg" == C3 ? f5 = "http://www.w3.org/2000/svg" : "math" == C3 ? f5 = "http://www.w3.org/1998/Math/MathML" : f5 || (f5 = "http://www.w3.org/1999/xhtml"), o5) {
    for (s4 = 0; s4 < o5.length; s4++) if ((k4 = o5[s4]) && (C3 ? k4.localName == C3 : 3 == k4.nodeType)) {
      t4 = k4, o5[s4] = null;
      break;
    }
  }
  if (!t4) {
    if (M2 = a5.ownerDocument || document, !C3) return M2.createTextNode(x3);
    t4 = M2.createElementNS(f5, C3, x3.is ? x3 : a5), l4 && (n.__m && n.__m(r4, o5), l4 = false), o5 = null;
  }
  if (C3) {
    if (a5 = "template" == C3 && t4.content || t4, o5 = "textarea" == C3 && null != x3.defaultValue ? null : o5 && d.call(a5.childNodes), !l4 && o5) for ($2 = {}, s4 = 0; s4 < t4.attributes.length; s4++) $2[(k4 = t4.attributes[s4]).name] = k4.value;
    for (s4 in $2) k4 = $2[s4], "dangerouslySetInnerHTML" == s4 ? y5 = k4 : "children" == s4 || s4 in x3 || "value" == s4 && "defaultValue" in x3 || "checked" == s4 && "defaultChecked" in x3 || N(t4, s4, null, k4, f5);
    for (s4 in x3) k4 = x3[s4], "children" == s4 ? _3 = k4 : "dangerouslySetInnerHTML" == s4 ? h5 = k4 : "value" == s4 ? b3 = k4 : "checked" == s4 ? m5 = k4 : l4 && "function" != typeof k4 || $2[s4] === k4 || N(t4, s4, k4, $2[s4], f5);
    h5 ? (l4 || y5 && (h5.__html == y5.__html || h5.__html == t4.innerHTML) || (t4.innerHTML = h5.__html), r4.__k = []) : (y5 && (t4.textContent = ""), ("foreignObject" == C3 || "http://www.w3.org/1998/Math/MathML" == f5 && v.test(C3)) && (f5 = "http://www.w3.org/1999/xhtml"), I(a5, w(_3) ? _3 : [_3], r4, u4, i4, f5, o5, e4, o5 ? o5[0] : u4.__k && S(u4, 0), l4, c4), o5 && o5.some(g)), l4 && "textarea" != C3 || (s4 = "value", "progress" == C3 && null == b3 ? t4.removeAttribute(s4) : null == b3 || b3 === t4[s4] && ("progress" != C3 || b3) || N(t4, s4, b3, $2[s4], f5), s4 = "checked", null != m5 && m5 != t4[s4] && N(t4, s4, m5, $2[s4], f5));
  } else $2 === x3 || l4 && t4.data == x3 || (t4.data = x3);
  return t4;
}
function G(t4, r4, u4, i4) {
  try {
    "function" == typeof t4 ? r4 ? r4.__x = t4(r4) || 1 : i4 && (i4 = i4.__c || i4.__e) && (r4 = i4.__x) && (i4.__x = null, "function" == typeof r4 ? r4() : t4(null)) : t4.current = r4;
  } catch (t5) {
    n.__e(t5, u4);
  }
}
function J(t4, r4, u4) {
  var i4, f5, o5, e4;
  if (n.unmount && n.unmount(t4), !(i4 = t4.ref) || i4.current && i4.current != t4.__e || G(i4, null, r4, t4), i4 = t4.__c) {
    if (i4.componentWillUnmount) try {
      i4.componentWillUnmount();
    } catch (t5) {
      n.__e(t5, r4);
    }
    i4.__P = i4.__n = null;
  }
  if (i4 = t4.__k) for (e4 = 0; e4 < i4.length; e4++) i4[e4] && J(i4[e4], r4, "function" != typeof t4.type || u4 && !t4.props.__P);
  !u4 && (i4 = t4.__c) && (i4 = i4.__z) && (f5 = B(i4, o5 = [])) && (i4 == t4.__e && o5.some(g), g(f5), g(i4)), u4 || g(t4.__e), t4.__e = t4.__c = t4.__ = null;
}
function K(n3, t4, r4) {
  return this.constructor(n3, r4);
}
function Q(t4, r4) {
  var u4, i4, f5, o5;
  n.__ && n.__(t4, r4), 9 == r4.nodeType && (r4 = r4.documentElement), i4 = (u4 = t4 && 32 & t4.__u) ? null : r4.__k, r4.__k = m($, { children: [t4] }), f5 = [], o5 = [], z(r4, r4.__k, i4 || p, p, r4.namespaceURI, i4 ? null : r4.firstChild ? d.call(r4.childNodes) : null, f5, i4 ? i4.__e : r4.firstChild, u4, o5), E(f5, r4.__k, o5), r4.__k.props.children = null;
}
n = { __e: function(n3, t4, r4, u4) {
  for (var i4, o5, e4; t4 = t4.__; ) if ((i4 = t4.__c) && !(1 & i4.__g)) {
    i4.__g |= 4;
    try {
      if ((e4 = (o5 = i4.constructor) && o5.getDerivedStateFromError) && i4.setState(o5.getDerivedStateFromError(n3)), i4.componentDidCatch && (i4.componentDidCatch(n3, u4 || {}), e4 = 1), e4 && 8 & i4.__g) return void (i4.__g |= 2);
    } catch (t5) {
      n3 = t5;
    }
  }
  throw f = 0, n3;
} }, t = 0, r = function(n3) {
  return null != n3 && n3.constructor === h;
}, x.prototype.setState = function(n3, t4) {
  var r4 = this.__s;
  r4 && r4 != this.state || (r4 = this.__s = _({}, this.state)), "function" == typeof n3 && (n3 = n3(_({}, r4), this.props)), n3 && (_(r4, n3), this.__v && (t4 && this.__k.push(t4), L(this)));
}, x.prototype.forceUpdate = function(n3) {
  this.__v && (this.__g |= 4, n3 && this.__h.push(n3), L(this));
}, x.prototype.render = $, u = [], f = 0, o = function(n3, t4) {
  return n3.__v.__b - t4.__v.__b;
}, e = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

// node_modules/preact/hooks/dist/hooks.mjs
var t2;
var r2;
var u2;
var i2;
var o2 = Object.is;
var f2 = 0;
var c2 = [];
var e2 = [];
var a2 = n;
var v2 = a2.__b;
var l2 = a2.__r;
var m2 = a2.diffed;
var h2 = a2.__c;
var s2 = a2.unmount;
var p2 = a2.__;
function y2(n3, t4) {
  a2.__h && a2.__h(r2, n3, f2 || t4), f2 = 0;
  var u4 = r2.__H || (r2.__H = { __: [], __h: [] });
  return n3 >= u4.__.length && u4.__.push({}), u4.__[n3];
}
function A2(n3, u4) {
  var i4 = y2(t2++, 3);
  !a2.__s && E2(i4.__H, u4) && (i4.__P = true, i4.__ = n3, i4.u = u4, r2.__H.__h.push(i4));
}
function T2(n3) {
  return f2 = 5, w2(function() {
    return { current: n3 };
  }, []);
}
function w2(n3, r4) {
  var u4 = y2(t2++, 7);
  return E2(u4.__H, r4) && (u4.__ = n3(), u4.__H = r4), u4.__;
}
function g2() {
  var n3;
  do {
    for (; n3 = e2.shift(); ) try {
      C2(n3);
    } catch (t5) {
      a2.__e(t5, { __: (n3 = n3.__P) && n3.__v });
    }
    for (; n3 = c2.shift(); ) {
      var t4 = n3.__H;
      if (n3.__P && t4) try {
        t4.__h.some(C2), t4.__h.some(D2), t4.__h = [];
      } catch (r4) {
        t4.__h = [], a2.__e(r4, n3.__v);
      }
    }
  } while (e2.length);
}
a2.__b = function(n3) {
  r2 = null, v2 && v2(n3);
}, a2.__ = function(n3, t4) {
  n3 && t4.__k && t4.__k.__m && (n3.__m = t4.__k.__m), p2 && p2(n3, t4);
}, a2.__r = function(n3) {
  l2 && l2(n3), t2 = 0;
  var i4 = (r2 = n3.__c).__H;
  i4 && (u2 == r2 ? r2.__h = [] : (i4.__h.some(C2), i4.__h.some(D2), t2 = 0), i4.__h = [], i4.__.some(function(n4) {
    n4.__N && (n4.__ = n4.__N), n4.u = n4.__N = void 0;
  })), u2 = r2;
}, a2.diffed = function(n3) {
  m2 && m2(n3);
  var t4 = n3.__c;
  t4 && t4.__H && (t4.__H.__h.length && B2(c2.push(t4)), t4.__H.__.some(function(n4) {
    n4.u && (n4.__H = n4.u);
  })), u2 = r2 = null;
}, a2.__c = function(n3, t4) {
  t4.some(function(n4) {
    try {
      n4.__h.some(C2), n4.__h = n4.__h.filter(function(n5) {
        return !n5.__ || D2(n5);
      });
    } catch (t5) {
      n4.__h = [function() {
        throw t5;
      }];
    }
  }), h2 && h2(n3, t4);
}, a2.unmount = function(n3) {
  s2 && s2(n3);
  var t4, r4, u4 = n3.__c;
  u4 && u4.__H && (u4.__H.__.some(function(u5) {
    try {
      if (u5.__P && u5.__c) {
        if (void 0 === r4) {
          for (r4 = n3.__; r4 && (!r4.__c || !r4.__c.__P); ) r4 = r4.__;
          r4 = r4 && r4.__c;
        }
        u5.__P = r4, B2(e2.push(u5));
      } else C2(u5);
    } catch (n4) {
      t4 = n4;
    }
  }), u4.__H = void 0, t4 && a2.__e(t4, u4.__v));
};
var k2 = "function" == typeof requestAnimationFrame;
function z2(n3) {
  var t4, r4 = function() {
    clearTimeout(u4), k2 && cancelAnimationFrame(t4), setTimeout(n3);
  }, u4 = setTimeout(r4, 35);
  k2 && (t4 = requestAnimationFrame(r4));
}
function B2(n3) {
  1 != n3 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
}
function C2(n3) {
  var t4 = r2, u4 = n3.__c;
  "function" == typeof u4 && (n3.__c = void 0, u4()), r2 = t4;
}
function D2(n3) {
  var t4 = r2;
  n3.__c = n3.__(), r2 = t4;
}
function E2(n3, t4) {
  return !n3 || n3.length != t4.length || t4.some(function(t5, r4) {
    return !o2(t5, n3[r4]);
  });
}

// node_modules/@preact/signals-core/dist/signals-core.module.js
var i3 = /* @__PURE__ */ Symbol.for("preact-signals");
function t3() {
  if (!(v3 > 1)) {
    var i4, t4 = false;
    !(function() {
      var i5 = c3;
      c3 = void 0;
      while (void 0 !== i5) {
        var t5 = i5.S;
        if (t5.v === i5.v) {
          for (var r5 = t5.t; void 0 !== r5; r5 = r5.x) if (r5.i === i5.i) r5.i = t5.i;
        }
        i5 = i5.o;
      }
    })();
    while (void 0 !== h3) {
      var r4 = h3;
      h3 = void 0;
      s3++;
      while (void 0 !== r4) {
        var n3 = r4.u;
        r4.u = void 0;
        r4.f &= -3;
        if (!(8 & r4.f) && w3(r4)) try {
          r4.c();
        } catch (r5) {
          if (!t4) {
            i4 = r5;
            t4 = true;
          }
        }
        r4 = n3;
      }
    }
    s3 = 0;
    v3--;
    if (t4) throw i4;
  } else v3--;
}
function r3(i4) {
  if (v3 > 0) return i4();
  u3 = ++e3;
  v3++;
  try {
    return i4();
  } finally {
    t3();
  }
}
var n2;
var o3 = void 0;
function f3(i4) {
  var t4 = o3, r4 = n2;
  o3 = void 0;
  n2 = void 0;
  try {
    return i4();
  } finally {
    o3 = t4;
    n2 = r4;
  }
}
var h3 = void 0;
var v3 = 0;
var s3 = 0;
var e3 = 0;
var u3 = 0;
var c3 = void 0;
var a3 = 0;
function d2(i4) {
  if (void 0 !== o3) {
    var t4 = i4.n;
    if (void 0 === t4 || t4.t !== o3) {
      t4 = { i: 0, S: i4, p: o3.s, n: void 0, t: o3, e: void 0, x: void 0, r: t4 };
      if (void 0 !== o3.s) o3.s.n = t4;
      o3.s = t4;
      i4.n = t4;
      if (32 & o3.f) i4.S(t4);
      return t4;
    } else if (-1 === t4.i) {
      t4.i = 0;
      if (void 0 !== t4.n) {
        t4.n.p = t4.p;
        if (void 0 !== t4.p) t4.p.n = t4.n;
        t4.p = o3.s;
        t4.n = void 0;
        o3.s.n = t4;
        o3.s = t4;
      }
      return t4;
    }
  }
}
function l3(i4, t4) {
  this.v = i4;
  this.i = 0;
  this.n = void 0;
  this.t = void 0;
  this.l = 0;
  this.W = null == t4 ? void 0 : t4.watched;
  this.Z = null == t4 ? void 0 : t4.unwatched;
  this.name = null == t4 ? void 0 : t4.name;
}
l3.prototype.brand = i3;
l3.prototype.h = function() {
  return true;
};
l3.prototype.S = function(i4) {
  var t4 = this, r4 = this.t;
  if (r4 !== i4 && void 0 === i4.e) {
    i4.x = r4;
    this.t = i4;
    if (void 0 !== r4) r4.e = i4;
    else f3(function() {
      var i5;
      null == (i5 = t4.W) || i5.call(t4);
    });
  }
};
l3.prototype.U = function(i4) {
  var t4 = this;
  if (void 0 !== this.t) {
    var r4 = i4.e, n3 = i4.x;
    if (void 0 !== r4) {
      r4.x = n3;
      i4.e = void 0;
    }
    if (void 0 !== n3) {
      n3.e = r4;
      i4.x = void 0;
    }
    if (i4 === this.t) {
      this.t = n3;
      if (void 0 === n3) f3(function() {
        var i5;
        null == (i5 = t4.Z) || i5.call(t4);
      });
    }
  }
};
l3.prototype.subscribe = function(i4) {
  var t4 = this;
  return x2(function() {
    var r4 = t4.value;
    f3(function() {
      return i4(r4);
    });
  }, { name: "sub" });
};
l3.prototype.valueOf = function() {
  return this.value;
};
l3.prototype.toString = function() {
  return this.value + "";
};
l3.prototype.toJSON = function() {
  return this.value;
};
l3.prototype.peek = function() {
  var i4 = this;
  return f3(function() {
    return i4.value;
  });
};
Object.defineProperty(l3.prototype, "value", { get: function() {
  var i4 = d2(this);
  if (void 0 !== i4) i4.i = this.i;
  return this.v;
}, set: function(i4) {
  if (i4 !== this.v) {
    if (s3 > 100) throw new Error("Cycle detected");
    !(function(i5) {
      if (0 !== v3 && 0 === s3) {
        if (i5.l !== u3) {
          i5.l = u3;
          c3 = { S: i5, v: i5.v, i: i5.i, o: c3 };
        }
      }
    })(this);
    this.v = i4;
    this.i++;
    a3++;
    v3++;
    try {
      for (var r4 = this.t; void 0 !== r4; r4 = r4.x) r4.t.N();
    } finally {
      t3();
    }
  }
} });
function y3(i4, t4) {
  return new l3(i4, t4);
}
function w3(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) if (t4.S.i !== t4.i || !t4.S.h() || t4.S.i !== t4.i) return true;
  return false;
}
function b(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) {
    var r4 = t4.S.n;
    if (void 0 !== r4) t4.r = r4;
    t4.S.n = t4;
    t4.i = -1;
    if (void 0 === t4.n) {
      i4.s = t4;
      break;
    }
  }
}
function _2(i4) {
  var t4 = i4.s, r4 = void 0;
  while (void 0 !== t4) {
    var n3 = t4.p;
    if (-1 === t4.i) {
      t4.S.U(t4);
      if (void 0 !== n3) n3.n = t4.n;
      if (void 0 !== t4.n) t4.n.p = n3;
    } else r4 = t4;
    t4.S.n = t4.r;
    if (void 0 !== t4.r) t4.r = void 0;
    t4 = n3;
  }
  i4.s = r4;
}
function j2(i4, t4) {
  l3.call(this, void 0, t4);
  this.x = i4;
  this.s = void 0;
  this.g = a3 - 1;
  this.f = 4;
}
j2.prototype = new l3();
j2.prototype.h = function() {
  this.f &= -3;
  if (1 & this.f) return false;
  if (32 == (36 & this.f)) return true;
  this.f &= -5;
  if (this.g === a3) return true;
  this.g = a3;
  this.f |= 1;
  if (this.i > 0 && !w3(this)) {
    this.f &= -2;
    return true;
  }
  var i4 = o3;
  try {
    b(this);
    o3 = this;
    var t4 = this.x();
    if (16 & this.f || this.v !== t4 || 0 === this.i) {
      this.v = t4;
      this.f &= -17;
      this.i++;
    }
  } catch (i5) {
    this.v = i5;
    this.f |= 16;
    this.i++;
  }
  o3 = i4;
  _2(this);
  this.f &= -2;
  return true;
};
j2.prototype.S = function(i4) {
  if (void 0 === this.t) {
    this.f |= 36;
    for (var t4 = this.s; void 0 !== t4; t4 = t4.n) t4.S.S(t4);
  }
  l3.prototype.S.call(this, i4);
};
j2.prototype.U = function(i4) {
  if (void 0 !== this.t) {
    l3.prototype.U.call(this, i4);
    if (void 0 === this.t) {
      this.f &= -33;
      for (var t4 = this.s; void 0 !== t4; t4 = t4.n) t4.S.U(t4);
    }
  }
};
j2.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 6;
    for (var i4 = this.t; void 0 !== i4; i4 = i4.x) i4.t.N();
  }
};
Object.defineProperty(j2.prototype, "value", { get: function() {
  if (1 & this.f) throw new Error("Cycle detected");
  var i4 = d2(this);
  this.h();
  if (void 0 !== i4) i4.i = this.i;
  if (16 & this.f) throw this.v;
  return this.v;
} });
function O(i4, t4) {
  return new j2(i4, t4);
}
function p3(i4) {
  var r4 = i4.j;
  i4.j = void 0;
  if ("function" == typeof r4) {
    v3++;
    var n3 = o3;
    o3 = void 0;
    try {
      r4();
    } catch (t4) {
      i4.f &= -2;
      i4.f |= 8;
      g3(i4);
      throw t4;
    } finally {
      o3 = n3;
      t3();
    }
  }
}
function g3(i4) {
  for (var t4 = i4.s; void 0 !== t4; t4 = t4.n) t4.S.U(t4);
  i4.x = void 0;
  i4.s = void 0;
  p3(i4);
}
function S2(i4) {
  if (o3 !== this) throw new Error("Out-of-order effect");
  _2(this);
  o3 = i4;
  this.f &= -2;
  try {
    if (8 & this.f) g3(this);
  } finally {
    t3();
  }
}
function m3(i4, t4) {
  this.x = i4;
  this.j = void 0;
  this.s = void 0;
  this.u = void 0;
  this.f = 32;
  this.name = null == t4 ? void 0 : t4.name;
  if (n2) n2.push(this);
}
m3.prototype.c = function() {
  var i4 = this.S();
  try {
    if (8 & this.f) return;
    if (void 0 === this.x) return;
    var t4 = this.x();
    if ("function" == typeof t4) this.j = t4;
  } finally {
    i4();
  }
};
m3.prototype.S = function() {
  if (1 & this.f) throw new Error("Cycle detected");
  this.f |= 1;
  this.f &= -9;
  p3(this);
  b(this);
  v3++;
  var i4 = o3;
  o3 = this;
  return S2.bind(this, i4);
};
m3.prototype.N = function() {
  if (!(2 & this.f)) {
    this.f |= 2;
    this.u = h3;
    h3 = this;
  }
};
m3.prototype.d = function() {
  this.f |= 8;
  if (!(1 & this.f)) g3(this);
};
m3.prototype.dispose = function() {
  this.d();
};
function x2(i4, t4) {
  var r4 = new m3(i4, t4);
  try {
    r4.c();
  } catch (i5) {
    r4.d();
    throw i5;
  }
  var n3 = r4.d.bind(r4);
  n3[Symbol.dispose] = n3;
  return n3;
}

// node_modules/@preact/signals/dist/signals.module.js
var h4;
var d3;
var p4;
var m4 = "undefined" != typeof window && !!window.__PREACT_SIGNALS_DEVTOOLS__;
var g4 = [];
x2(function() {
  h4 = this.N;
})();
function b2(i4, n3) {
  n[i4] = n3.bind(null, n[i4] || function() {
  });
}
function y4(i4) {
  if (p4) {
    var n3 = p4;
    p4 = void 0;
    n3();
  }
  p4 = i4 && i4.S();
}
function w4(i4) {
  var n3 = this, r4 = i4.data, t4 = useSignal(r4);
  t4.name = "ReactiveDom";
  t4.value = r4;
  var e4 = w2(function() {
    var i5 = n3, r5 = n3.__v;
    while (r5 = r5.__) if (r5.__c) {
      r5.__c.__$f |= 4;
      break;
    }
    var o5 = O(function() {
      var i6 = t4.value.value;
      return 0 === i6 ? 0 : true === i6 ? "" : i6 || "";
    }), e5 = O(function() {
      return !Array.isArray(o5.value) && !r(o5.value);
    }), u5 = x2(function() {
      this.N = M;
      if (e5.value) {
        var n4 = o5.value;
        if (i5.__v && i5.__v.__e && 3 === i5.__v.__e.nodeType) i5.__v.__e.data = n4;
      }
    }), c5 = n3.__$u.d;
    n3.__$u.d = function() {
      u5();
      c5.call(this);
    };
    return [e5, o5];
  }, []), u4 = e4[0], c4 = e4[1];
  return u4.value ? c4.peek() : c4.value;
}
w4.displayName = "ReactiveTextNode";
Object.defineProperties(l3.prototype, { constructor: { configurable: true, value: k($, null).constructor }, type: { configurable: true, value: w4 }, props: { configurable: true, get: function() {
  var i4 = this;
  return { data: { get value() {
    return i4.value;
  } } };
} }, __b: { configurable: true, value: 1 } });
b2("__b", function(i4, n3) {
  y4();
  d3 = void 0;
  if ("string" == typeof n3.type) {
    var r4, t4 = n3.props;
    for (var f5 in t4) if ("children" !== f5) {
      var o5 = t4[f5];
      if (o5 instanceof l3) {
        if (!r4) n3.__np = r4 = {};
        r4[f5] = o5;
        t4[f5] = o5.peek();
      }
    }
  }
  i4(n3);
});
b2("__r", function(i4, r4) {
  i4(r4);
  if (r4.type !== $) {
    y4();
    var t4, f5 = r4.__c;
    if (f5) {
      f5.__$f &= -2;
      if (void 0 === (t4 = f5.__$u)) f5.__$u = t4 = (function(i5, n3) {
        var r5;
        x2(function() {
          r5 = this;
        }, { name: n3 });
        r5.c = i5;
        return r5;
      })(/* @__PURE__ */ (function(i5) {
        return function() {
          var n3;
          if (m4) null == (n3 = this.y) || n3.call(this);
          i5.__$f |= 1;
          i5.setState({});
        };
      })(f5), "function" == typeof r4.type ? r4.type.displayName || r4.type.name : "");
    }
    d3 = f5;
    y4(t4);
  }
});
b2("__e", function(i4, n3, r4, t4) {
  y4();
  d3 = void 0;
  i4(n3, r4, t4);
});
b2("diffed", function(i4, n3) {
  y4();
  d3 = void 0;
  var r4;
  if ("string" == typeof n3.type && (r4 = n3.__e)) {
    var t4 = n3.__np, f5 = n3.props, o5 = r4.U;
    if (o5) for (var e4 in o5) {
      var u4 = o5[e4];
      if (!(void 0 === u4 || t4 && e4 in t4)) {
        u4.d();
        o5[e4] = void 0;
      }
    }
    if (t4) {
      if (!o5) {
        o5 = {};
        r4.U = o5;
      }
      for (var a5 in t4) {
        var c4 = o5[a5], v4 = t4[a5];
        if (void 0 === c4) {
          c4 = k3(r4, a5, v4, f5);
          o5[a5] = c4;
        } else c4.o(v4, f5);
      }
    }
  }
  i4(n3);
});
function k3(i4, n3, r4, t4) {
  var f5 = n3 in i4 && void 0 === i4.ownerSVGElement, o5 = y3(r4);
  return { o: function(i5, n4) {
    o5.value = i5;
    t4 = n4;
  }, d: x2(function() {
    this.N = M;
    var r5 = o5.value.value;
    if (t4[n3] !== r5) {
      t4[n3] = r5;
      if (f5) i4[n3] = r5;
      else if (null != r5 && (false !== r5 || "-" === n3[4])) i4.setAttribute(n3, r5);
      else i4.removeAttribute(n3);
    }
  }) };
}
b2("unmount", function(i4, n3) {
  if ("string" == typeof n3.type) {
    var r4 = n3.__e;
    if (r4) {
      var t4 = r4.U;
      if (t4) {
        r4.U = void 0;
        for (var f5 in t4) {
          var o5 = t4[f5];
          if (o5) o5.d();
        }
      }
    }
    var e4 = n3.__np;
    if (e4) {
      var u4 = n3.props;
      for (var a5 in e4) u4[a5] = e4[a5];
    }
    n3.__np = void 0;
  } else {
    var c4 = n3.__c;
    if (c4) {
      c4.__$f |= 8;
      var v4 = c4.__$u;
      if (v4) {
        c4.__$u = void 0;
        v4.d();
      }
    }
  }
  i4(n3);
});
b2("__h", function(i4, n3, r4, t4) {
  if (t4 < 3) n3.__$f |= 2;
  i4(n3, r4, t4);
});
x.prototype.shouldComponentUpdate = function(i4, n3) {
  if (this.__R) return true;
  var r4 = this.__$u, t4 = r4 && void 0 !== r4.s;
  for (var f5 in n3) return true;
  if (this.__f || "boolean" == typeof this.u && true === this.u) {
    var o5 = 2 & this.__$f;
    if (!(t4 || o5 || 4 & this.__$f)) return true;
    if (1 & this.__$f) return true;
  } else {
    if (!(t4 || 4 & this.__$f)) return true;
    if (3 & this.__$f) return true;
  }
  for (var e4 in i4) if ("__source" !== e4 && i4[e4] !== this.props[e4]) return true;
  for (var u4 in this.props) if (!(u4 in i4)) return true;
  return false;
};
function useSignal(i4, n3) {
  return w2(function() {
    return y3(i4, n3);
  }, []);
}
function useComputed(i4, n3) {
  var r4 = T2(i4);
  r4.current = i4;
  d3.__$f |= 4;
  return w2(function() {
    return O(function() {
      return r4.current();
    }, n3);
  }, []);
}
var A3 = function(i4) {
  queueMicrotask(function() {
    queueMicrotask(i4);
  });
};
function F2() {
  r3(function() {
    var i4;
    while (i4 = g4.shift()) h4.call(i4);
  });
}
function M() {
  if (1 === g4.push(this)) (n.requestAnimationFrame || A3)(F2);
}

// src/model/time.ts
var NEXT_STYLE = { relative: "local", local: "utc", utc: "relative" };
var STORED = "tenure.time";
var timeStyle = y3("relative");
function rememberTimeStyle(storage) {
  const stored = storage.getItem(STORED);
  if (stored === "relative" || stored === "local" || stored === "utc") timeStyle.value = stored;
  x2(() => storage.setItem(STORED, timeStyle.value));
}
var offset = 0;
var clock = y3(Date.now());
function heard(serverTime, sent) {
  const received = Date.now();
  if (received - sent < 1e3) offset = Date.parse(serverTime) - (sent + received) / 2;
}
var now = () => Date.now() + offset;
function startClock() {
  setInterval(() => {
    clock.value = now();
  }, 1e3);
}
var ms = (time) => time === null || time === void 0 ? void 0 : Date.parse(time);
var two = (n3) => String(n3).padStart(2, "0");
function span(duration2) {
  const t4 = Math.max(0, duration2);
  if (t4 < 1e3) return `${Math.round(t4)} ms`;
  if (t4 < 59950) return `${(t4 / 1e3).toFixed(1)} s`;
  const s4 = Math.round(t4 / 1e3);
  if (s4 < 3600) return `${Math.floor(s4 / 60)} min ${two(s4 % 60)} s`;
  if (s4 < 86400) return `${Math.floor(s4 / 3600)} h ${two(Math.floor(s4 % 3600 / 60))} min`;
  return `${Math.floor(s4 / 86400)} d ${Math.floor(s4 % 86400 / 3600)} h`;
}
function roughly(duration2) {
  const t4 = Math.max(0, duration2);
  if (t4 < 1e3) return `${Math.round(t4)} ms`;
  if (t4 < 6e4) return `${Math.floor(t4 / 1e3)} s`;
  if (t4 < 36e5) return `${Math.floor(t4 / 6e4)} min`;
  if (t4 < 1728e5) return `${Math.floor(t4 / 36e5)} h`;
  return `${Math.floor(t4 / 864e5)} d`;
}
function relative(at, from) {
  const t4 = from - at;
  if (Math.abs(t4) < 1e3) return "now";
  return t4 > 0 ? `${roughly(t4)} ago` : `in ${roughly(-t4)}`;
}
function clockTime(at, from, utc, withMs = false) {
  const date = new Date(at);
  const part = (name, of = date) => utc ? of[`getUTC${name}`]() : of[`get${name}`]();
  const day = (of) => `${part("FullYear", of)}-${two(part("Month", of) + 1)}-${two(part("Date", of))}`;
  const fraction = withMs ? `.${String(date.getTime() % 1e3).padStart(3, "0")}` : "";
  const time = `${two(part("Hours"))}:${two(part("Minutes"))}:${two(part("Seconds"))}${fraction}`;
  return day(date) === day(new Date(from)) ? time : `${day(date)} ${time}`;
}
function spell(at, from, style) {
  return style === "relative" ? relative(at, from) : clockTime(at, from, style === "utc");
}
function axisTime(t4, step) {
  if (t4 < 1e3 && step < 1e3) return `+${trim(t4, step)} ms`;
  if (t4 < 6e4) return `+${trim(t4 / 1e3, step / 1e3)} s`;
  const s4 = Math.floor(t4 / 1e3);
  const rest = step < 1e3 ? `.${String(Math.floor(t4 % 1e3)).padStart(3, "0").slice(0, step < 100 ? 2 : 1)}` : "";
  if (s4 < 3600) return `+${Math.floor(s4 / 60)}:${two(s4 % 60)}${rest}`;
  const hours = Math.floor(s4 / 3600);
  if (hours < 48) return `+${hours}:${two(Math.floor(s4 % 3600 / 60))}:${two(s4 % 60)}`;
  return `+${Math.floor(s4 / 86400)} d ${two(hours % 24)}:${two(Math.floor(s4 % 3600 / 60))}`;
}
function trim(value, step) {
  const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
  return value.toFixed(digits);
}

// src/data/feed.ts
var PERIOD = { runs: 2e3, run: 1e3, queues: 4e3, inbox: 3e3, overview: 5e3 };
var COST_FACTOR = 20;
var BACKOFF_MAX_MS = 8e3;
var isLive = y3(true);
var asOf = y3(now());
var failures = 0;
function fresh() {
  failures = 0;
  isLive.value = true;
  asOf.value = now();
}
function lost() {
  failures += 1;
  isLive.value = false;
}
function follow(topic, read2) {
  let timer;
  let isOver = false;
  const round = async () => {
    const started = performance.now();
    if (document.visibilityState === "visible") await read2();
    if (isOver) return;
    const took = performance.now() - started;
    const backoff = failures === 0 ? 0 : Math.min(BACKOFF_MAX_MS, 500 * 2 ** failures);
    timer = setTimeout(round, Math.max(PERIOD[topic], took * COST_FACTOR, backoff));
  };
  const wake = () => {
    if (document.visibilityState !== "visible" || isOver) return;
    clearTimeout(timer);
    timer = setTimeout(round, 0);
  };
  document.addEventListener("visibilitychange", wake);
  void round();
  return () => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", wake);
  };
}
function markTitle() {
  x2(() => {
    const plain3 = document.title.replace(/^○ /, "");
    document.title = isLive.value ? plain3 : `○ ${plain3}`;
  });
}

// src/router.ts
var ADDRESS_MAX = 4096;
var base = () => new URL(".", document.baseURI).pathname;
function placeOf(address2, root) {
  const below = address2.pathname.startsWith(root) ? address2.pathname.slice(root.length) : "";
  return { path: below.split("/").filter(Boolean), query: new URLSearchParams(address2.search) };
}
var place = y3({ path: [], query: new URLSearchParams() });
function startRouter() {
  const read2 = () => {
    place.value = placeOf(location, base());
  };
  addEventListener("popstate", read2);
  addEventListener("click", onClick);
  read2();
}
function go(to, { replace = false } = {}) {
  const url = new URL(to === "" ? "./" : to, document.baseURI);
  if (url.href.length > ADDRESS_MAX) return;
  if (url.href !== location.href) history[replace ? "replaceState" : "pushState"](null, "", url.href);
  const isOther = placeOf(url, base()).path.join("/") !== place.value.path.join("/");
  place.value = placeOf(url, base());
  if (isOther && !replace) scrollTo(0, 0);
}
function withQuery(changes, from = place.value) {
  const query = new URLSearchParams(from.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === void 0 || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text2 = query.toString();
  return from.path.join("/") + (text2 === "" ? "" : `?${text2}`);
}
function onClick(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target !== "") return;
  if (link.origin !== location.origin || !link.pathname.startsWith(base())) return;
  event.preventDefault();
  go(link.href);
}

// src/session.ts
var STORED2 = "tenure.session";
var person = y3(null);
var endedBecause = y3("");
var key = "";
function looksLikeKey(text2) {
  return /^tnr_[0-9a-z]+_[0-9a-z]+_[0-9a-z]+$/i.test(text2.trim());
}
function restore() {
  const stored = sessionStorage.getItem(STORED2);
  if (stored) begin(stored);
}
function begin(secret) {
  key = secret.trim();
  sessionStorage.setItem(STORED2, key);
  endedBecause.value = "";
  person.value = { keyId: key.split("_")[1] ?? "" };
}
function end(because = "") {
  key = "";
  sessionStorage.removeItem(STORED2);
  endedBecause.value = because;
  person.value = null;
}
function credentials() {
  return key === "" ? {} : { authorization: `Bearer ${key}` };
}
function credentialsOf(secret) {
  return { authorization: `Bearer ${secret.trim()}` };
}

// src/api/scan.ts
var PAYLOADS = /* @__PURE__ */ new Set(["input", "output", "result", "payload", "partialProgress", "body"]);
var OPAQUE = /* @__PURE__ */ new Set(["labels", "detail", "inputSchema", "outputSchema"]);
function parse(text2) {
  const out = [];
  let copied = 0;
  for (const [start, end2] of payloads(text2)) {
    out.push(text2.slice(copied, start), JSON.stringify(text2.slice(start, end2)));
    copied = end2;
  }
  out.push(text2.slice(copied));
  return JSON.parse(out.join(""));
}
function payloads(text2) {
  const found = [];
  let at = 0;
  while (at < text2.length) {
    if (text2[at] !== '"') {
      at++;
      continue;
    }
    const end2 = stringEnd(text2, at);
    const colon = skipSpace(text2, end2);
    if (text2[colon] !== ":") {
      at = end2;
      continue;
    }
    const name = text2.slice(at + 1, end2 - 1);
    const value = skipSpace(text2, colon + 1);
    if (PAYLOADS.has(name)) {
      at = valueEnd(text2, value);
      found.push([value, at]);
    } else {
      at = OPAQUE.has(name) ? valueEnd(text2, value) : value;
    }
  }
  return found;
}
function stringEnd(text2, at) {
  let i4 = at + 1;
  while (i4 < text2.length && text2[i4] !== '"') i4 += text2[i4] === "\\" ? 2 : 1;
  return i4 + 1;
}
function skipSpace(text2, at) {
  let i4 = at;
  while (i4 < text2.length && " 	\r\n".includes(text2[i4])) i4++;
  return i4;
}
function valueEnd(text2, at) {
  let i4 = at;
  let depth = 0;
  do {
    const c4 = text2[i4];
    if (c4 === '"') {
      i4 = stringEnd(text2, i4);
      continue;
    }
    if (c4 === "{" || c4 === "[") depth++;
    if (c4 === "}" || c4 === "]") depth--;
    i4++;
    if (depth === 0 && c4 !== "}" && c4 !== "]")
      while (i4 < text2.length && !" 	\r\n,}]".includes(text2[i4])) i4++;
  } while (depth > 0 && i4 < text2.length);
  return i4;
}

// src/api/call.ts
var Problem = class extends Error {
  constructor(status, code2, title, message, requestId = "") {
    super(message);
    this.status = status;
    this.code = code2;
    this.title = title;
    this.message = message;
    this.requestId = requestId;
  }
  status;
  code;
  title;
  message;
  requestId;
  get isUnreachable() {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
};
var TIMEOUT_MS = 2e4;
function get(path2, options = {}) {
  return call("GET", path2, options);
}
function post(path2, body, options = {}) {
  return call("POST", path2, { ...options, body });
}
async function call(method, path2, options) {
  const sent = Date.now();
  const response = await reach(method, path2, options);
  const text2 = await response.text().catch(() => "");
  if (!response.ok) throw refused(response, text2);
  const answer2 = parse(text2);
  if (typeof answer2.serverTime === "string") heard(answer2.serverTime, sent);
  return answer2;
}
async function reach(method, path2, options) {
  const headers = {
    accept: "application/json",
    ...credentials(),
    ...options.headers
  };
  if (options.body !== void 0) headers["content-type"] = "application/json";
  if (options.idempotencyKey) headers["idempotency-key"] = options.idempotencyKey;
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...options.signal ? [options.signal] : []];
  try {
    return await fetch(address(path2, options.query), {
      method,
      headers,
      body: options.body === void 0 ? void 0 : JSON.stringify(options.body),
      signal: AbortSignal.any(limits),
      cache: "no-store",
      redirect: "error"
    });
  } catch (error2) {
    if (options.signal?.aborted) throw error2;
    throw new Problem(
      0,
      "unreachable",
      "The server does not answer",
      "no answer came from the server; it may be restarting, or the network is down"
    );
  }
}
var API = "../";
function address(path2, query) {
  const url = new URL(API + path2, document.baseURI);
  const members = query instanceof URLSearchParams ? query : Object.entries(query ?? {});
  for (const [name, value] of members) {
    if (value !== void 0 && value !== null && value !== "") url.searchParams.append(name, String(value));
  }
  return url.href;
}
function refused(response, text2) {
  let body = {};
  try {
    body = JSON.parse(text2);
  } catch {
  }
  const {
    error: error2 = `http_${response.status}`,
    title = `The server answered ${response.status}`,
    message = "",
    requestId = ""
  } = body;
  const problem = new Problem(response.status, error2, title, message, requestId);
  if (response.status === 401 && person.value)
    end("The server no longer takes your key: it was revoked or has expired");
  return problem;
}
var inPath = (name) => name.replaceAll("/", "~");
var runIdOf = (id) => id.replace(/^task_/, "run_");

// src/access.ts
var NOTHING_YET = {
  isKnown: false,
  mayReadRuns: false,
  mayReadApprovals: false,
  mayReadSchedules: false,
  mayReadEffects: false
};
var access = y3(NOTHING_YET);
async function discoverAccess() {
  access.value = NOTHING_YET;
  const [runs, approvals2, schedules, effects] = await Promise.all([
    allowed("v1/runs"),
    allowed("v1/approvals"),
    allowed("v1/schedules"),
    allowed("v1/effects")
  ]);
  const run = runs.answer?.runs[0];
  access.value = {
    isKnown: true,
    mayReadRuns: runs.isAllowed,
    mayReadApprovals: approvals2.isAllowed,
    mayReadSchedules: schedules.isAllowed,
    mayReadEffects: effects.isAllowed,
    tenant: run?.tenantId,
    workspace: run?.workspaceId
  };
}
async function allowed(path2) {
  try {
    return { isAllowed: true, answer: await get(path2, { query: { limit: 1 } }) };
  } catch (error2) {
    return { isAllowed: !(error2 instanceof Problem && error2.status === 403) };
  }
}

// src/data/query.ts
function useQuery(key2, topic, read2) {
  const data = useSignal(void 0);
  const problem = useSignal(void 0);
  const latest = T2(read2);
  latest.current = read2;
  const again = T2(async () => {
  });
  A2(() => {
    const stop = new AbortController();
    data.value = void 0;
    problem.value = void 0;
    again.current = async () => {
      try {
        const value = await latest.current(stop.signal);
        if (stop.signal.aborted) return;
        data.value = value;
        problem.value = void 0;
        fresh();
      } catch (error2) {
        if (stop.signal.aborted) return;
        problem.value = asProblem(error2);
        if (problem.value.isUnreachable) lost();
        else fresh();
      }
    };
    const end2 = topic ? follow(topic, () => again.current()) : void 0;
    if (!topic) void again.current();
    return () => {
      stop.abort();
      end2?.();
    };
  }, [key2, topic]);
  return { data, problem, again: () => again.current() };
}
function asProblem(error2) {
  if (error2 instanceof Problem) return error2;
  const message = error2 instanceof Error ? error2.message : String(error2);
  return new Problem(-1, "console_defect", "The console could not read the answer", message);
}

// src/keys.ts
var PAGES = {
  o: "",
  r: "runs",
  i: "inbox",
  q: "queues",
  s: "schedules",
  e: "effects"
};
var CHORD_MS = 1200;
function startKeys({ help }) {
  let chordUntil = 0;
  const onKey = (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
    if (performance.now() < chordUntil) {
      chordUntil = 0;
      const page = PAGES[event.key];
      if (page !== void 0) return act(event, () => go(page));
    }
    switch (event.key) {
      case "/":
        return act(event, () => document.getElementById("jump")?.focus());
      case "?":
        return act(event, help);
      case "t":
        return act(event, () => {
          timeStyle.value = NEXT_STYLE[timeStyle.value];
        });
      case "g":
        chordUntil = performance.now() + CHORD_MS;
        return;
      case "j":
        return act(event, () => move(1));
      case "k":
        return act(event, () => move(-1));
      case ".":
        return act(
          event,
          () => document.querySelector("[data-actions] button:not(:disabled)")?.focus()
        );
      default:
        return;
    }
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}
function act(event, what) {
  event.preventDefault();
  what();
}
function isTyping(target) {
  return target instanceof HTMLElement && (target.matches("input, textarea, select") || target.closest("dialog") !== null);
}
function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  const next2 = rows[at < 0 ? by > 0 ? 0 : rows.length - 1 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next2?.focus();
  next2?.scrollIntoView({ block: "nearest" });
}

// src/model/shown.ts
var HIDDEN_RANGES = [
  [0, 8],
  [11, 31],
  [127, 159],
  [173, 173],
  [1564, 1564],
  [4447, 4448],
  [6155, 6159],
  [8203, 8207],
  [8232, 8238],
  [8288, 8303],
  [12644, 12644],
  [65024, 65039],
  [65279, 65279],
  [65529, 65531],
  [917504, 921599]
];
var spelled = (code2) => `\\u{${code2.toString(16)}}`;
var HIDDEN = new RegExp(HIDDEN_RANGES.map(([a5, b3]) => `[${spelled(a5)}-${spelled(b3)}]`).join("|"), "gu");
function visible(text2) {
  return text2.replace(HIDDEN, (c4) => `‹U+${c4.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}
function jsonLines(text2) {
  const lines = [];
  let line2 = { indent: 0, tokens: [] };
  let depth = 0;
  const push = (kind, token) => line2.tokens.push({ kind, text: token });
  const feed = () => {
    if (line2.tokens.length > 0) lines.push(line2);
    line2 = { indent: depth, tokens: [] };
  };
  const tokens = text2.match(/"(?:[^"\\]|\\[\s\S])*"?|[{}[\]:,]|[^\s"{}[\]:,]+/g) ?? [];
  tokens.forEach((token, i4) => {
    const next2 = tokens[i4 + 1];
    if (token === "{" || token === "[") {
      push("mark", token);
      if (next2 === "}" || next2 === "]") return;
      depth++;
      feed();
    } else if (token === "}" || token === "]") {
      const isEmpty = tokens[i4 - 1] === "{" || tokens[i4 - 1] === "[";
      if (!isEmpty) {
        depth = Math.max(0, depth - 1);
        feed();
      }
      push("mark", token);
    } else if (token === ",") {
      push("mark", token);
      feed();
    } else if (token === ":") push("mark", ": ");
    else if (token.startsWith('"')) push(next2 === ":" ? "name" : "string", token);
    else push(/^-?\d/.test(token) ? "number" : "word", token);
  });
  feed();
  return lines;
}
function tableRows(text2) {
  let value;
  try {
    value = JSON.parse(text2);
  } catch {
    return void 0;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return void 0;
  const rows = [];
  const lines = jsonLines(text2).slice(1, -1);
  for (const line2 of lines) {
    const [name, colon, scalar2] = line2.tokens;
    if (line2.indent !== 1 || name?.kind !== "name" || colon?.text !== ": " || !scalar2 || scalar2.kind === "mark")
      return void 0;
    rows.push([unquoted(name.text), scalar2.kind === "string" ? unquoted(scalar2.text) : scalar2.text]);
  }
  return rows.length > 0 ? rows : void 0;
}
function unquoted(text2) {
  try {
    return JSON.parse(text2);
  } catch {
    return text2;
  }
}

// src/model/command.ts
function quote(word) {
  return /^[A-Za-z0-9_./:=@%+,#-]+$/.test(word) && !word.startsWith("#") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
function command(...words2) {
  return ["tenure", ...words2.filter((word) => typeof word === "string")].map(quote).join(" ");
}
function listCommand(filters) {
  const words2 = [];
  for (const name of ["state", "queue", "kind", "label", "worker", "category", "since"]) {
    for (const value of filters.getAll(name)) words2.push(`--${name}`, value);
  }
  return command("runs", "list", ...words2, filters.get("children") === "true" && "--children");
}

// src/model/state.ts
var look = (tone, word, glyph = tone) => ({ tone, glyph, word });
var STATES = {
  queued: look("queue", "queued"),
  running: look("run", "running"),
  retry: look("retry", "retry"),
  waiting: look("wait", "waiting"),
  succeeded: look("ok", "succeeded"),
  failed: look("bad", "failed"),
  halted: look("halt", "halted"),
  cancelled: look("queue", "cancelled", "cancel"),
  blocked: look("queue", "blocked", "park"),
  skipped: look("queue", "skipped", "skip")
};
var STATE_NAMES = Object.keys(STATES);
function stateLook(state) {
  return STATES[state] ?? look("queue", state);
}
function isEnded(state) {
  return ["succeeded", "failed", "halted", "cancelled", "skipped"].includes(state);
}
var OUTCOMES = {
  SUCCEEDED: look("ok", "succeeded"),
  FAILED: look("bad", "failed"),
  CANCELLED: look("queue", "cancelled", "cancel"),
  LOST: look("retry", "lost: lease expired"),
  UNDELIVERED: look("retry", "never started"),
  REVOKED: look("halt", "revoked"),
  RELEASED: look("queue", "given back"),
  SUSPENDED: look("wait", "suspended"),
  DIVERGED: look("halt", "diverged")
};
function outcomeLook(outcome) {
  if (outcome === void 0) return look("run", "running");
  return OUTCOMES[outcome] ?? look("queue", outcome.toLowerCase());
}
var EFFECTS = {
  queued: look("queue", "queued"),
  pending: look("run", "pending"),
  in_flight: look("run", "in flight"),
  delivered: look("ok", "delivered"),
  unknown: look("halt", "unknown"),
  dead: look("bad", "dead")
};
function effectLook(state) {
  return EFFECTS[state] ?? look("queue", state);
}
function fence(value) {
  return `${Math.floor(value / 2 ** 32)}.${value % 2 ** 32}`;
}

// node_modules/preact/jsx-runtime/dist/jsxRuntime.mjs
var f4 = /* @__PURE__ */ Symbol.for("pv");
var o4 = 0;
function a4(t4, e4, n3, u4, a5, i4) {
  e4 || (e4 = {});
  var c4, l4, p5 = e4;
  if ("ref" in p5 && "function" != typeof t4) for (l4 in p5 = {}, e4) "ref" == l4 ? c4 = e4[l4] : p5[l4] = e4[l4];
  var s4 = { type: t4, props: p5, key: n3, ref: c4, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: f4, __v: --o4, __i: -1, __u: 0 };
  return (a5 || i4) && (s4.__source = a5, s4.__self = i4), n.vnode && n.vnode(s4), s4;
}

// src/parts/bits.tsx
function Time({ at }) {
  const t4 = typeof at === "number" ? at : ms(at);
  if (t4 === void 0 || Number.isNaN(t4)) return /* @__PURE__ */ a4("span", { class: "muted", children: "–" });
  const tip = `${relative(t4, clock.value)}
local ${clockTime(t4, 0, false, true)}
UTC ${clockTime(t4, 0, true, true)}`;
  return /* @__PURE__ */ a4("time", { class: "num", dateTime: new Date(t4).toISOString(), title: tip, children: spell(t4, clock.value, timeStyle.value) });
}
function Copy({ text: text2, label = "copy" }) {
  const isDone = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text2);
    } catch {
      copyBySelection(text2);
    }
    isDone.value = true;
    setTimeout(() => {
      isDone.value = false;
    }, 1500);
  };
  return /* @__PURE__ */ a4("button", { type: "button", class: "copy", onClick: copy, "aria-label": `${label}: ${text2.slice(0, 80)}`, children: isDone.value ? "copied" : label });
}
function copyBySelection(text2) {
  const field = document.createElement("textarea");
  field.value = text2;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
function Cli({ line: line2 }) {
  return /* @__PURE__ */ a4("div", { class: "cli", children: [
    /* @__PURE__ */ a4("code", { children: line2 }),
    /* @__PURE__ */ a4(Copy, { text: line2 })
  ] });
}
function Card(props) {
  return /* @__PURE__ */ a4("section", { class: `card ${props.class ?? ""}`, children: [
    /* @__PURE__ */ a4("header", { children: [
      /* @__PURE__ */ a4("h2", { children: props.title }),
      props.note && /* @__PURE__ */ a4("span", { class: "muted", children: props.note }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      props.aside
    ] }),
    props.children
  ] });
}
function Failed({
  problem,
  again,
  deed = "read"
}) {
  const isForbidden = problem.status === 403;
  return /* @__PURE__ */ a4("div", { class: "notice t-bad", role: "alert", children: [
    /* @__PURE__ */ a4("b", { children: isForbidden ? `This key may not ${deed} this` : problem.title }),
    /* @__PURE__ */ a4("p", { children: problem.message }),
    /* @__PURE__ */ a4("p", { class: "muted", children: [
      /* @__PURE__ */ a4("code", { children: problem.code }),
      problem.requestId && /* @__PURE__ */ a4($, { children: [
        " · request ",
        /* @__PURE__ */ a4("code", { children: problem.requestId })
      ] }),
      again && /* @__PURE__ */ a4($, { children: [
        " · ",
        /* @__PURE__ */ a4("button", { type: "button", class: "link", onClick: again, children: "try again" })
      ] })
    ] })
  ] });
}
function Loading({ rows = 4 }) {
  return /* @__PURE__ */ a4("div", { class: "loading", "aria-hidden": "true", children: Array.from({ length: rows }, (_3, i4) => /* @__PURE__ */ a4("i", {}, i4)) });
}
function Empty({
  title,
  children,
  lines = []
}) {
  return /* @__PURE__ */ a4("div", { class: "empty", children: [
    /* @__PURE__ */ a4("b", { children: title }),
    children && /* @__PURE__ */ a4("p", { children }),
    lines.map((line2) => /* @__PURE__ */ a4(Cli, { line: line2 }, line2))
  ] });
}
function Digest({ value, short = false }) {
  const groups = value.match(/.{1,4}/g) ?? [];
  return /* @__PURE__ */ a4("code", { class: "digest", title: value, children: short ? `${groups.slice(0, 6).join(" ")}…` : groups.join(" ") });
}

// src/parts/glyph.tsx
var cut = { stroke: "var(--surface)", "stroke-width": 1.5, fill: "none" };
var line = { stroke: "currentColor", "stroke-width": 1.4, fill: "none" };
var SHAPES = {
  ok: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "5.4", fill: "currentColor" }),
    /* @__PURE__ */ a4("path", { d: "M3.400 6.200l1.800 1.800 3.400-3.800", ...cut })
  ] }),
  run: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
    /* @__PURE__ */ a4("path", { d: "M4.600 3.600l4 2.400-4 2.400z", fill: "currentColor" })
  ] }),
  wait: /* @__PURE__ */ a4(
    "path",
    {
      d: "M2.200 1h7.600M2.200 11h7.600M3 1c0 3 3 3.600 3 5S3 8 3 11M9 1c0 3-3 3.600-3 5s3 2 3 5",
      ...line
    }
  ),
  queue: /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
  park: /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.900", "stroke-dasharray": "2.200 1.700", ...line }),
  retry: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("path", { d: "M10.200 4.200A4.800 4.800 0 1 0 10.800 7", ...line }),
    /* @__PURE__ */ a4("path", { d: "M10.900 1.200v3.600H7.400z", fill: "currentColor" })
  ] }),
  bad: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("rect", { x: ".8", y: ".8", width: "10.400", height: "10.400", rx: "1.600", fill: "currentColor" }),
    /* @__PURE__ */ a4("path", { d: "M3.700 3.700l4.600 4.600M8.300 3.700L3.700 8.300", ...cut })
  ] }),
  halt: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("path", { d: "M3.700.6h4.600l3.100 3.100v4.600l-3.100 3.100H3.700L.6 8.300V3.700z", fill: "currentColor" }),
    /* @__PURE__ */ a4("path", { d: "M3.400 6h5.200", ...cut })
  ] }),
  cancel: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.900", ...line }),
    /* @__PURE__ */ a4("path", { d: "M2.700 9.300l6.600-6.600", ...line })
  ] }),
  skip: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("circle", { cx: "2", cy: "6", r: "1.300", fill: "currentColor" }),
    /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "1.300", fill: "currentColor" }),
    /* @__PURE__ */ a4("circle", { cx: "10", cy: "6", r: "1.300", fill: "currentColor" })
  ] }),
  refused: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("path", { d: "M6 .3L11.700 6 6 11.700.3 6z", ...line }),
    /* @__PURE__ */ a4("path", { d: "M4.200 4.200l3.600 3.600M7.800 4.200L4.200 7.800", ...line })
  ] }),
  take: /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("path", { d: "M1 2.500h3.200c2.600 0 1.200 7 3.800 7H10", ...line }),
    /* @__PURE__ */ a4("path", { d: "M8.600 7l3 2.500-3 2.500z", fill: "currentColor" })
  ] }),
  step: /* @__PURE__ */ a4("path", { d: "M6 1l5 5-5 5-5-5z", fill: "currentColor" })
};
function Glyph({ name, size = 12 }) {
  return /* @__PURE__ */ a4("svg", { class: "glyph", width: size, height: size, viewBox: "0 0 12 12", "aria-hidden": "true", children: SHAPES[name] });
}
function GlyphAt({ name, x: x3, y: y5, size }) {
  const scale2 = size / 12;
  return /* @__PURE__ */ a4("g", { transform: `translate(${x3 - size / 2} ${y5 - size / 2}) scale(${scale2})`, children: SHAPES[name] });
}
function Pill({ look: look2, text: text2 }) {
  return /* @__PURE__ */ a4("span", { class: `pill t-${look2.tone}`, children: [
    /* @__PURE__ */ a4(Glyph, { name: look2.glyph, size: 13 }),
    text2 ?? look2.word
  ] });
}
function Mark({ look: look2 }) {
  return /* @__PURE__ */ a4("span", { class: `mark t-${look2.tone}`, children: [
    /* @__PURE__ */ a4(Glyph, { name: look2.glyph }),
    look2.word
  ] });
}

// src/parts/read.tsx
function Read({ query, children }) {
  const { data, problem } = query;
  return /* @__PURE__ */ a4($, { children: [
    problem.value && /* @__PURE__ */ a4(Failed, { problem: problem.value, again: query.again }),
    data.value === void 0 && !problem.value && /* @__PURE__ */ a4(Loading, { rows: 6 }),
    data.value !== void 0 && children(data.value)
  ] });
}

// src/parts/frame.tsx
function Crumb({ name, to }) {
  return /* @__PURE__ */ a4("div", { class: "crumb", children: [
    /* @__PURE__ */ a4("a", { href: to, children: name }),
    " /"
  ] });
}
function Head(props) {
  return /* @__PURE__ */ a4("div", { class: "head", children: [
    /* @__PURE__ */ a4("h1", { children: visible(props.title) }),
    props.look && /* @__PURE__ */ a4(Pill, { look: props.look }),
    props.note && /* @__PURE__ */ a4("span", { class: "soft clip", children: props.note }),
    props.children && /* @__PURE__ */ a4("span", { class: "sp" }),
    props.children
  ] });
}
function Tabs({ tabs, on }) {
  const here = place.value.path.join("/");
  return /* @__PURE__ */ a4("nav", { class: "tabs", "aria-label": "Parts", children: tabs.map(([id, title], i4) => /* @__PURE__ */ a4(
    "a",
    {
      class: on === id ? "on" : "",
      "aria-current": on === id ? "page" : void 0,
      href: i4 === 0 ? here : `${here}?tab=${id}`,
      children: title
    },
    id
  )) });
}
function Chips(props) {
  const chosen = place.value.query.get(props.name) ?? "";
  const chip = (value, { word, tone, glyph }) => {
    const isOn = value === chosen;
    return /* @__PURE__ */ a4(
      "a",
      {
        class: `chip ${isOn ? "on" : ""}`,
        "aria-current": isOn ? "true" : void 0,
        href: withQuery({ [props.name]: isOn ? void 0 : value }),
        children: [
          glyph && /* @__PURE__ */ a4("span", { class: isOn ? "" : `t-${tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: glyph, size: 11 }) }),
          word
        ]
      },
      value
    );
  };
  return /* @__PURE__ */ a4("nav", { class: "chips", "aria-label": props.label, children: [
    chip("", { word: "all" }),
    props.choices.map(([value, look2]) => chip(value, look2)),
    props.children
  ] });
}
function Chosen({ name, value }) {
  return /* @__PURE__ */ a4(
    "a",
    {
      class: "chip on-soft",
      href: withQuery({ [name]: void 0 }),
      "aria-label": `remove the filter ${name} ${value}`,
      children: [
        /* @__PURE__ */ a4("span", { class: "muted", children: name }),
        " ",
        /* @__PURE__ */ a4("bdi", { children: visible(value) }),
        " ×"
      ]
    }
  );
}
function Listing(props) {
  return /* @__PURE__ */ a4(Read, { query: props.query, children: (data) => /* @__PURE__ */ a4("section", { class: "card", children: props.isEmpty(data) ? props.empty : props.children(data) }) });
}
function Facts({ of }) {
  const known = of.filter(([, value]) => value !== void 0 && value !== null && value !== "");
  return /* @__PURE__ */ a4("dl", { class: "facts", children: known.map(([name, value]) => /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { children: value })
  ] }, name)) });
}
function Foot({ lines }) {
  return /* @__PURE__ */ a4("div", { class: "foot", children: lines.map((line2) => /* @__PURE__ */ a4(Cli, { line: line2 }, line2)) });
}

// src/parts/payload.tsx
var LINE_PX = 20;
var HEIGHT_PX = 460;
var STRING_MAX = 2e3;
var SPARE = 10;
function PayloadView({ text: text2, label }) {
  const top = useSignal(0);
  const lines = useComputed(() => jsonLines(text2));
  const all = jsonLinesOf(lines.value, text2);
  const height = Math.min(HEIGHT_PX, all.length * LINE_PX);
  const first = Math.max(0, Math.floor(top.value / LINE_PX) - SPARE);
  const last = Math.min(all.length, first + Math.ceil(HEIGHT_PX / LINE_PX) + 2 * SPARE);
  return /* @__PURE__ */ a4("div", { class: "payload", children: [
    /* @__PURE__ */ a4("div", { class: "bar", children: [
      /* @__PURE__ */ a4("span", { class: "muted", children: [
        all.length === 1 ? "1 line" : `${all.length} lines`,
        ", ",
        bytes(text2)
      ] }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      /* @__PURE__ */ a4(Copy, { text: text2 }),
      /* @__PURE__ */ a4("button", { type: "button", class: "copy", onClick: () => download(text2, label), children: "download" })
    ] }),
    /* @__PURE__ */ a4(
      "section",
      {
        class: "lines",
        "aria-label": label,
        tabIndex: 0,
        style: { height: `${height}px` },
        onScroll: (event) => {
          top.value = event.currentTarget.scrollTop;
        },
        children: /* @__PURE__ */ a4("div", { style: { height: `${all.length * LINE_PX}px` }, children: /* @__PURE__ */ a4("div", { style: { transform: `translateY(${first * LINE_PX}px)` }, children: all.slice(first, last).map((line2, i4) => /* @__PURE__ */ a4(LineView, { line: line2, n: first + i4 + 1 }, first + i4)) }) })
      }
    )
  ] });
}
var jsonLinesOf = (lines, text2) => lines.length > 0 ? lines : [{ indent: 0, tokens: [{ kind: "word", text: text2 === "" ? "empty" : text2 }] }];
function LineView({ line: line2, n: n3 }) {
  return /* @__PURE__ */ a4("div", { class: "line", children: [
    /* @__PURE__ */ a4("i", { class: "num", children: n3 }),
    /* @__PURE__ */ a4("span", { style: { paddingLeft: `${line2.indent * 16}px` }, children: line2.tokens.map((token, i4) => /* @__PURE__ */ a4(Piece, { kind: token.kind, text: token.text }, i4)) })
  ] });
}
function Piece({ kind, text: text2 }) {
  const isWhole = useSignal(false);
  const isCut = text2.length > STRING_MAX && !isWhole.value;
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("bdi", { class: `j-${kind}`, children: visible(isCut ? text2.slice(0, STRING_MAX) : text2) }),
    isCut && /* @__PURE__ */ a4(
      "button",
      {
        type: "button",
        class: "link",
        onClick: () => {
          isWhole.value = true;
        },
        children: [
          "… ",
          text2.length - STRING_MAX,
          " more characters"
        ]
      }
    )
  ] });
}
function bytes(text2) {
  const n3 = new TextEncoder().encode(text2).length;
  return n3 < 2048 ? `${n3} bytes` : `${(n3 / 1024).toFixed(1)} KiB`;
}
function download(text2, label) {
  const url = URL.createObjectURL(new Blob([text2], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${label.replaceAll(/[^a-z0-9]+/gi, "-")}.json`;
  link.target = "_self";
  link.click();
  URL.revokeObjectURL(url);
}

// src/parts/table.tsx
var PLACES = /* @__PURE__ */ new Set(["r", "hide-narrow"]);
var placing = (style = "") => style.split(" ").filter((word) => PLACES.has(word)).join(" ");
function Table(props) {
  return /* @__PURE__ */ a4("table", { class: props.isList ? "list-table" : "", children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: props.columns.map(([head, , style]) => /* @__PURE__ */ a4("th", { class: placing(style), children: head }, head)) }) }),
    /* @__PURE__ */ a4("tbody", { children: props.items.map((item) => /* @__PURE__ */ a4("tr", { children: props.columns.map(([head, cell, style]) => /* @__PURE__ */ a4("td", { class: style, children: cell(item) }, head)) }, props.by(item))) })
  ] });
}

// src/people.ts
var names = y3(/* @__PURE__ */ new Map());
var KEYS_MAX = 1e3;
async function discoverNames() {
  names.value = /* @__PURE__ */ new Map();
  const found = /* @__PURE__ */ new Map();
  let after;
  do {
    const page = await get("v1/keys", { query: { limit: 200, after } }).catch(() => void 0);
    for (const key2 of page?.keys ?? []) if (key2.name) found.set(key2.keyId, key2.name);
    after = page?.nextAfter ?? void 0;
  } while (after !== void 0 && found.size < KEYS_MAX);
  names.value = found;
}
var nameOf = (keyId) => names.value.get(keyId) ?? keyId.slice(0, 8);

// src/pages/effects.tsx
var STATES2 = ["dead", "unknown", "queued", "pending", "in_flight", "delivered"];
var PAGE = 100;
function EffectsPage({ id }) {
  document.title = "Effects · Tenure";
  if (id) return /* @__PURE__ */ a4(EffectPage, { id });
  const isEndpoints = place.value.query.get("tab") === "endpoints";
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Head, { title: "Effects", note: "what other systems are told" }),
    /* @__PURE__ */ a4(
      Tabs,
      {
        tabs: [
          ["effects", "Effects"],
          ["endpoints", "Endpoints"]
        ],
        on: isEndpoints ? "endpoints" : "effects"
      }
    ),
    isEndpoints ? /* @__PURE__ */ a4(EndpointsTab, {}) : /* @__PURE__ */ a4(EffectsTab, {})
  ] });
}
function EffectsTab() {
  const asked = place.value.query;
  const state = asked.get("state") ?? "";
  const endpoint = asked.get("endpoint") ?? "";
  const query = useQuery(
    `effects ${state} ${endpoint}`,
    "queues",
    (signal) => get("v1/effects", { query: { state, endpoint, limit: PAGE }, signal })
  );
  const filters = [...endpoint ? ["--endpoint", endpoint] : [], ...state ? ["--state", state] : []];
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Chips, { label: "State", name: "state", choices: STATES2.map((name) => [name, effectLook(name)]), children: endpoint && /* @__PURE__ */ a4(Chosen, { name: "endpoint", value: endpoint }) }),
    /* @__PURE__ */ a4(
      Listing,
      {
        query,
        isEmpty: (list) => list.effects.length === 0,
        empty: /* @__PURE__ */ a4(
          Empty,
          {
            title: state || endpoint ? "No effect matches" : "Nothing was decided for other systems",
            lines: ["tenure endpoints create crm https://crm.example.org/hooks"],
            children: "An effect is recorded in the commit that decided it, and delivered afterwards, in order, until the receiver has it. Register an endpoint, and it is told of the ends of runs."
          }
        ),
        children: ({ effects, cursor }) => /* @__PURE__ */ a4($, { children: [
          /* @__PURE__ */ a4(Table, { isList: true, items: effects, by: (effect) => effect.effectId, columns: COLUMNS }),
          cursor && /* @__PURE__ */ a4("div", { class: "bound muted", children: [
            "the newest ",
            effects.length,
            "; filter to see others"
          ] })
        ] })
      }
    ),
    /* @__PURE__ */ a4(Foot, { lines: [command("effects", ...filters)] })
  ] });
}
var COLUMNS = [
  ["state", (effect) => /* @__PURE__ */ a4(Mark, { look: effectLook(effect.state) }), "nowrap"],
  [
    "type",
    (effect) => /* @__PURE__ */ a4("a", { "data-row": true, href: `effects/${effect.effectId}`, children: visible(effect.type) }),
    "strong"
  ],
  ["endpoint", (effect) => /* @__PURE__ */ a4("a", { href: withQuery({ endpoint: effect.endpoint }), children: visible(effect.endpoint) })],
  ["tries", (effect) => effect.tries, "num r hide-narrow"],
  ["decided", (effect) => /* @__PURE__ */ a4(Time, { at: effect.decidedAt }), "nowrap hide-narrow"],
  ["next", (effect) => next(effect), "nowrap hide-narrow"],
  ["last answer", (effect) => answer(effect), "wide-cell hide-narrow"]
];
function next(effect) {
  if (effect.state === "dead" || effect.state === "unknown")
    return /* @__PURE__ */ a4("b", { class: "t-bad ink", children: effect.blocks ? "a person; its aggregate waits" : "a person" });
  if (effect.state === "queued") return "behind an earlier one";
  return effect.dueAt ? /* @__PURE__ */ a4(Time, { at: effect.dueAt }) : "";
}
var answer = ({ lastTry }) => visible([lastTry?.status, lastTry?.note].filter(Boolean).join(" "));
function fate(effect) {
  const tries = effect.tries === 1 ? "1 try" : `${effect.tries} tries`;
  switch (effect.state) {
    case "delivered":
      return `Delivered after ${tries}.`;
    case "dead":
      return `Dead after ${tries}: ${effect.reason ?? "given up"}. ${effect.blocks ? "What follows it in its aggregate waits for it: give it new tries, or let the others go on." : "Nothing waits for it. It can be given new tries."}`;
    case "unknown":
      return "It was sent, and no answer came. Ask the receiver whether it has it, and say so.";
    case "queued":
      return "It waits for an earlier effect of its aggregate: they are delivered in order.";
    default:
      return effect.tries === 0 ? "It is about to be sent." : `${tries} failed. It is tried again until the receiver has it.`;
  }
}
function remedies(effect) {
  const id = effect.effectId;
  if (effect.state === "dead")
    return [command("effects", "redrive", id), ...effect.blocks ? [command("effects", "release", id)] : []];
  if (effect.state === "unknown")
    return [
      command("effects", "reconcile", id, "--arrived"),
      command("effects", "reconcile", id, "--not-arrived")
    ];
  return [];
}
function EffectPage({ id }) {
  const query = useQuery(`effect ${id}`, "queues", (signal) => get(`v1/effects/${id}`, { signal }));
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Crumb, { name: "Effects", to: "effects" }),
    /* @__PURE__ */ a4(Read, { query, children: (effect) => /* @__PURE__ */ a4(Shown, { effect }) })
  ] });
}
function Shown({ effect }) {
  const look2 = effectLook(effect.state);
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Head, { title: effect.type, look: look2, note: /* @__PURE__ */ a4("code", { children: effect.effectId }) }),
    /* @__PURE__ */ a4(
      Facts,
      {
        of: [
          [
            "to",
            /* @__PURE__ */ a4("a", { href: `effects?endpoint=${encodeURIComponent(effect.endpoint)}`, children: visible(effect.endpoint) })
          ],
          ["of", /* @__PURE__ */ a4("a", { href: `runs/${effect.runId}`, children: effect.runId })],
          [
            "place",
            /* @__PURE__ */ a4($, { children: [
              effect.sequence,
              " of ",
              /* @__PURE__ */ a4("bdi", { children: visible(effect.aggregate) })
            ] })
          ],
          ["decided", /* @__PURE__ */ a4(Time, { at: effect.decidedAt })],
          ["settled", effect.settledAt && /* @__PURE__ */ a4(Time, { at: effect.settledAt })]
        ]
      }
    ),
    /* @__PURE__ */ a4("p", { class: `story t-${look2.tone}`, children: fate(effect) }),
    remedies(effect).map((line2) => /* @__PURE__ */ a4(Cli, { line: line2 }, line2)),
    /* @__PURE__ */ a4(Card, { title: "What happened", note: "oldest first", children: /* @__PURE__ */ a4(Table, { items: effect.log ?? [], by: (change) => `${change.at} ${change.state}`, columns: CHANGES }) }),
    effect.body !== void 0 && effect.body !== null && /* @__PURE__ */ a4(Card, { title: "What is sent", note: "the same bytes with every try", children: /* @__PURE__ */ a4(PayloadView, { text: effect.body, label: "what is sent" }) }),
    /* @__PURE__ */ a4(Foot, { lines: [command("effects", "show", effect.effectId)] })
  ] });
}
var CHANGES = [
  ["when", (change) => /* @__PURE__ */ a4(Time, { at: change.at }), "nowrap"],
  ["state", (change) => /* @__PURE__ */ a4(Mark, { look: effectLook(change.state) }), "nowrap"],
  ["tries", (change) => change.tries, "num r"],
  ["answer", (change) => change.state !== "in_flight" && answer(change), "wide-cell"],
  ["by", (change) => change.keyId ? visible(nameOf(change.keyId)) : ""]
];
function EndpointsTab() {
  const query = useQuery("endpoints", "queues", (signal) => get("v1/endpoints", { signal }));
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(
      Listing,
      {
        query,
        isEmpty: ({ endpoints }) => endpoints.length === 0,
        empty: /* @__PURE__ */ a4(
          Empty,
          {
            title: "No endpoint is registered",
            lines: ["tenure endpoints create crm https://crm.example.org/hooks"],
            children: "An endpoint is told what was decided: by default the ends of runs."
          }
        ),
        children: ({ endpoints }) => /* @__PURE__ */ a4(Table, { isList: true, items: endpoints, by: (endpoint) => endpoint.name, columns: ENDPOINTS })
      }
    ),
    /* @__PURE__ */ a4(Foot, { lines: ["tenure endpoints"] })
  ] });
}
var ENDPOINTS = [
  [
    "endpoint",
    ({ name }) => /* @__PURE__ */ a4("a", { "data-row": true, href: `effects?endpoint=${encodeURIComponent(name)}`, children: visible(name) }),
    "strong"
  ],
  ["state", ({ state, disabledBecause }) => state + (disabledBecause ? `: ${visible(disabledBecause)}` : "")],
  ["address", ({ url }) => /* @__PURE__ */ a4("code", { children: visible(url) }), "wide-cell hide-narrow"],
  ["told of", ({ types }) => visible(types.join(", ")) || "what workers declare", "wide-cell hide-narrow"],
  ["tries", ({ maxTries }) => maxTries, "num r hide-narrow"],
  ["pause between tries", pauses, "nowrap hide-narrow"]
];
function pauses({ retry }) {
  const [least, most] = [span(retry.baseMs), span(retry.capMs)];
  return least === most ? least : `${least} to ${most}`;
}

// src/model/sha256.ts
var K2 = new Uint32Array(64);
var START = new Uint32Array(8);
(function constants() {
  let found = 0;
  for (let n3 = 2; found < 64; n3++) {
    let isPrime = true;
    for (let d4 = 2; d4 * d4 <= n3; d4++) if (n3 % d4 === 0) isPrime = false;
    if (!isPrime) continue;
    const fraction = (x3) => Math.floor((x3 - Math.floor(x3)) * 2 ** 32);
    if (found < 8) START[found] = fraction(Math.sqrt(n3));
    K2[found++] = fraction(Math.cbrt(n3));
  }
})();
var rotate = (x3, by) => x3 >>> by | x3 << 32 - by;
function block(hash, view, offset2, w5) {
  for (let i4 = 0; i4 < 16; i4++) w5[i4] = view.getUint32(offset2 + 4 * i4);
  for (let i4 = 16; i4 < 64; i4++) {
    const a6 = w5[i4 - 15];
    const b4 = w5[i4 - 2];
    const s0 = rotate(a6, 7) ^ rotate(a6, 18) ^ a6 >>> 3;
    const s1 = rotate(b4, 17) ^ rotate(b4, 19) ^ b4 >>> 10;
    w5[i4] = w5[i4 - 16] + s0 + w5[i4 - 7] + s1;
  }
  let [a5, b3, c4, d4, e4, f5, g5, h5] = hash;
  for (let i4 = 0; i4 < 64; i4++) {
    const s1 = rotate(e4, 6) ^ rotate(e4, 11) ^ rotate(e4, 25);
    const t1 = h5 + s1 + (e4 & f5 ^ ~e4 & g5) + K2[i4] + w5[i4] | 0;
    const s0 = rotate(a5, 2) ^ rotate(a5, 13) ^ rotate(a5, 22);
    const t22 = s0 + (a5 & b3 ^ a5 & c4 ^ b3 & c4) | 0;
    [h5, g5, f5, e4, d4, c4, b3, a5] = [g5, f5, e4, d4 + t1 | 0, c4, b3, a5, t1 + t22 | 0];
  }
  [a5, b3, c4, d4, e4, f5, g5, h5].forEach((x3, i4) => {
    hash[i4] = hash[i4] + x3;
  });
}
function sha256(bytes2) {
  const padded = new Uint8Array((bytes2.length + 8 >> 6) * 64 + 64);
  padded.set(bytes2);
  padded[bytes2.length] = 128;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes2.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes2.length << 3);
  const hash = START.slice();
  const w5 = new Uint32Array(64);
  for (let offset2 = 0; offset2 < padded.length; offset2 += 64) block(hash, view, offset2, w5);
  return Array.from(hash, (x3) => x3.toString(16).padStart(8, "0")).join("");
}

// src/model/digest.ts
var encoder = new TextEncoder();
function payloadDigest(payload) {
  const text2 = encoder.encode(payload);
  const field = new Uint8Array(8 + text2.length);
  new DataView(field.buffer).setUint32(4, text2.length);
  field.set(text2, 8);
  return sha256(field);
}
function contentDigest(content) {
  return sha256(encoder.encode(content));
}
function canonical(text2) {
  const reader = new Reader(text2);
  return reader.value();
}
var Reader = class {
  constructor(text2) {
    this.text = text2;
  }
  text;
  at = 0;
  value() {
    this.space();
    const c4 = this.text[this.at];
    if (c4 === "{") return this.object();
    if (c4 === "[") return this.array();
    if (c4 === '"') return this.string();
    return scalar(this.word());
  }
  object() {
    const members = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "}"; this.comma()) {
      const name = this.string();
      this.space();
      this.at++;
      members.push([name, this.value()]);
      if (this.at >= this.text.length) throw new SyntaxError("an object does not end");
    }
    this.at++;
    members.sort(([a5], [b3]) => byUnits(JSON.parse(a5), JSON.parse(b3)));
    return `{${members.map(([name, value]) => `${name}:${value}`).join(",")}}`;
  }
  array() {
    const items = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "]"; this.comma()) {
      items.push(this.value());
      if (this.at >= this.text.length) throw new SyntaxError("an array does not end");
    }
    this.at++;
    return `[${items.join(",")}]`;
  }
  string() {
    const end2 = stringEnd(this.text, this.at);
    const written = this.text.slice(this.at, end2);
    this.at = end2;
    return JSON.stringify(JSON.parse(written));
  }
  word() {
    const from = this.at;
    while (this.at < this.text.length && !" 	\r\n,}]".includes(this.text[this.at])) this.at++;
    return this.text.slice(from, this.at);
  }
  comma() {
    this.space();
    if (this.text[this.at] === ",") this.at++;
    this.space();
  }
  space() {
    while (this.at < this.text.length && " 	\r\n".includes(this.text[this.at])) this.at++;
  }
};
function byUnits(a5, b3) {
  return a5 < b3 ? -1 : a5 > b3 ? 1 : 0;
}
function scalar(word) {
  if (/^-?\d+$/.test(word)) return word === "-0" ? "0" : word;
  if (/^-?\d/.test(word)) return String(Number(word));
  return word;
}

// src/model/content.ts
function contentOf(approval2, run, steps) {
  if (approval2.content) return { text: approval2.content };
  if (!approval2.digest) return void 0;
  const candidates = [
    ["the input of the run", run?.input],
    ...steps.map((step) => [
      `the result of its step ${step.key.replace(/#1$/, "")}`,
      step.result
    ])
  ];
  for (const [of, payload] of candidates) {
    if (payload === void 0) continue;
    const text2 = canonical(payload);
    if (contentDigest(text2) === approval2.digest) return { text: text2, of };
  }
  return void 0;
}

// src/parts/dialog.tsx
function Dialog(props) {
  const element = T2(null);
  const key2 = T2(`console-${randomId()}`);
  const problem = useSignal(void 0);
  const isBusy = useSignal(false);
  A2(() => {
    element.current?.showModal();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    problem.value = void 0;
    try {
      await props.run(key2.current);
      props.close();
    } catch (error2) {
      problem.value = asProblem(error2);
    } finally {
      isBusy.value = false;
    }
  };
  return /* @__PURE__ */ a4("dialog", { ref: element, onClose: props.close, "aria-labelledby": "dialog-title", children: /* @__PURE__ */ a4("form", { onSubmit: submit, children: [
    /* @__PURE__ */ a4("h2", { id: "dialog-title", children: props.title }),
    props.children,
    props.line && /* @__PURE__ */ a4(Cli, { line: props.line }),
    problem.value && /* @__PURE__ */ a4(Failed, { problem: problem.value, deed: "do" }),
    /* @__PURE__ */ a4("footer", { children: [
      /* @__PURE__ */ a4("button", { type: "button", class: "btn", onClick: () => element.current?.close(), children: "Back" }),
      /* @__PURE__ */ a4(
        "button",
        {
          type: "submit",
          class: `btn ${props.isDanger ? "danger solid" : "primary"}`,
          disabled: isBusy.value || props.isReady === false,
          children: isBusy.value ? "…" : props.act
        }
      )
    ] })
  ] }) });
}
function randomId() {
  return Array.from(
    crypto.getRandomValues(new Uint8Array(12)),
    (byte) => byte.toString(16).padStart(2, "0")
  ).join("");
}

// src/pages/inbox.tsx
function InboxPage({ item }) {
  const which = place.value.query.get("show") === "closed" ? "closed" : "pending";
  const query = useQuery(
    `inbox ${which}`,
    "inbox",
    (signal) => get("v1/approvals", { query: { state: which, limit: 100 }, signal })
  );
  const list = query.data.value?.approvals ?? [];
  const chosen = item ?? list[0]?.approvalId;
  document.title = "Inbox · Tenure";
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("div", { class: `head ${item ? "hide-narrow" : ""}`, children: [
      /* @__PURE__ */ a4("h1", { children: "Inbox" }),
      /* @__PURE__ */ a4("span", { class: "soft", children: "what waits for a person" })
    ] }),
    /* @__PURE__ */ a4("nav", { class: `chips ${item ? "hide-narrow" : ""}`, "aria-label": "Which", children: [
      /* @__PURE__ */ a4(
        "a",
        {
          class: `chip ${which === "pending" ? "on" : ""}`,
          "aria-current": which === "pending" ? "true" : void 0,
          href: "inbox",
          children: [
            "Open",
            which === "pending" && query.data.value ? ` ${list.length}` : ""
          ]
        }
      ),
      /* @__PURE__ */ a4(
        "a",
        {
          class: `chip ${which === "closed" ? "on" : ""}`,
          "aria-current": which === "closed" ? "true" : void 0,
          href: "inbox?show=closed",
          children: "Decided"
        }
      )
    ] }),
    query.problem.value && /* @__PURE__ */ a4(Failed, { problem: query.problem.value, again: query.again }),
    !query.data.value && !query.problem.value && /* @__PURE__ */ a4(Loading, { rows: 5 }),
    query.data.value && list.length === 0 && !item && /* @__PURE__ */ a4(Nothing, { which }),
    (list.length > 0 || item) && /* @__PURE__ */ a4("div", { class: `split ${item ? "with-item" : ""}`, children: [
      /* @__PURE__ */ a4("section", { class: `card list ${item ? "hide-narrow" : ""}`, "aria-label": "Approvals", children: list.map((approval2) => /* @__PURE__ */ a4(Item, { approval: approval2, isOn: approval2.approvalId === chosen }, approval2.approvalId)) }),
      chosen && /* @__PURE__ */ a4(ApprovalCard, { id: chosen, changed: query.again }, chosen)
    ] })
  ] });
}
function Nothing({ which }) {
  return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(
    Empty,
    {
      title: which === "pending" ? "Nothing waits for a person" : "Nothing has been decided yet",
      lines: which === "pending" ? ["tenure tour approval"] : [],
      children: "A run that needs a decision asks for it here, with what is to be decided. It waits without a worker and without a process."
    }
  ) });
}
function Item({ approval: approval2, isOn }) {
  const look2 = approvalLook(approval2);
  const query = place.value.query.toString();
  return /* @__PURE__ */ a4(
    "a",
    {
      class: `item ${isOn ? "on" : ""}`,
      "data-row": true,
      "aria-current": isOn ? "true" : void 0,
      href: `inbox/${approval2.approvalId}${query ? `?${query}` : ""}`,
      children: [
        /* @__PURE__ */ a4("span", { class: `t-${look2.tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: look2.glyph, size: 14 }) }),
        /* @__PURE__ */ a4("b", { children: visible(approval2.subject ?? approval2.key) }),
        /* @__PURE__ */ a4("span", { class: "muted nowrap", children: roughly(clock.value - ms(approval2.openedAt)) }),
        /* @__PURE__ */ a4("span", { class: "under muted", children: [
          approved(approval2),
          " of ",
          approval2.quorum,
          " approved",
          approval2.state === "pending" && approval2.expiresAt ? `, expires ${relative(ms(approval2.expiresAt), clock.value)}` : "",
          approval2.outcome ? `, ${approval2.outcome}` : ""
        ] })
      ]
    }
  );
}
var approved = (approval2) => approval2.votes.filter((vote) => vote.decision === "APPROVED").length;
function approvalLook(approval2) {
  if (approval2.state === "pending") {
    const missing = approval2.quorum - approved(approval2);
    return {
      tone: "wait",
      glyph: "wait",
      word: `waits for ${missing} ${approved(approval2) > 0 ? "more " : ""}${missing === 1 ? "person" : "people"}`
    };
  }
  if (approval2.outcome === "APPROVED") return { ...stateLook("succeeded"), word: "approved" };
  if (approval2.outcome === "REJECTED") return { ...stateLook("failed"), word: "rejected" };
  return { tone: "queue", glyph: "cancel", word: (approval2.outcome ?? "closed").toLowerCase() };
}
async function readAsked(id, known, signal) {
  const approval2 = await get(`v1/approvals/${id}`, { signal });
  if (known && (known.content !== void 0 || !approval2.digest)) return { ...known, approval: approval2 };
  const optional = (reading) => reading.catch(() => void 0);
  const run = access.value.mayReadRuns ? await optional(get(`v1/runs/${runIdOf(approval2.taskId)}`, { signal })) : void 0;
  const mayHaveSteps = run?.durable && !approval2.content;
  const steps = mayHaveSteps ? await optional(
    get(`v1/runs/${runIdOf(approval2.taskId)}/steps`, { query: { limit: 200 }, signal })
  ) : void 0;
  return { approval: approval2, content: contentOf(approval2, run, steps?.steps ?? []), kind: run?.kind };
}
function ApprovalCard({ id, changed }) {
  const known = useSignal(void 0);
  const query = useQuery(`approval ${id}`, "inbox", async (signal) => {
    known.value = await readAsked(id, known.value, signal);
    return known.value;
  });
  const { approval: approval2, content, kind } = query.data.value ?? {};
  if (!approval2) {
    return /* @__PURE__ */ a4("section", { class: "card pad", children: query.problem.value ? /* @__PURE__ */ a4(Failed, { problem: query.problem.value, again: query.again }) : /* @__PURE__ */ a4(Loading, { rows: 8 }) });
  }
  const look2 = approvalLook(approval2);
  const both = async () => {
    await Promise.all([query.again(), changed()]);
  };
  return /* @__PURE__ */ a4("section", { class: "card pad approval", "aria-label": "Approval", children: [
    /* @__PURE__ */ a4("a", { class: "back", href: "inbox", children: "‹ Inbox" }),
    /* @__PURE__ */ a4("div", { class: "lead", children: [
      /* @__PURE__ */ a4(Pill, { look: look2 }),
      /* @__PURE__ */ a4("span", { class: "muted", children: [
        "asked ",
        /* @__PURE__ */ a4(Time, { at: approval2.openedAt }),
        " by",
        " ",
        access.value.mayReadRuns ? /* @__PURE__ */ a4("a", { href: `runs/${approval2.runId}`, children: visible(kind ?? "its run") }) : "a run"
      ] })
    ] }),
    /* @__PURE__ */ a4("h2", { class: "question", children: /* @__PURE__ */ a4("bdi", { children: visible(approval2.subject ?? approval2.key) }) }),
    /* @__PURE__ */ a4(Standing, { approval: approval2 }),
    /* @__PURE__ */ a4(Decision, { approval: approval2, content, changed: both }, content?.text)
  ] });
}
function Standing({ approval: approval2 }) {
  const votes = approval2.votes;
  return /* @__PURE__ */ a4("div", { class: "standing", children: [
    /* @__PURE__ */ a4("div", { class: votes.length > 0 ? "t-ok edge" : "", children: [
      /* @__PURE__ */ a4("span", { class: "muted", children: [
        approved(approval2),
        " of ",
        approval2.quorum,
        " approved"
      ] }),
      votes.length === 0 && /* @__PURE__ */ a4("span", { children: "no decision yet" }),
      votes.map((vote) => /* @__PURE__ */ a4("span", { children: [
        /* @__PURE__ */ a4("b", { title: vote.keyId, children: visible(nameOf(vote.keyId)) }),
        " ",
        vote.decision === "APPROVED" ? "approved" : /* @__PURE__ */ a4("b", { class: "t-bad ink", children: "rejected" }),
        vote.comment ? /* @__PURE__ */ a4($, { children: [
          ": ",
          /* @__PURE__ */ a4("bdi", { children: [
            "“",
            visible(vote.comment),
            "”"
          ] })
        ] }) : ""
      ] }, vote.keyId))
    ] }),
    /* @__PURE__ */ a4("div", { children: [
      /* @__PURE__ */ a4("span", { class: "muted", children: "without a decision" }),
      /* @__PURE__ */ a4("span", { children: approval2.expiresAt ? /* @__PURE__ */ a4($, { children: [
        (approval2.default ?? "expired").toLowerCase(),
        " ",
        /* @__PURE__ */ a4(Time, { at: approval2.expiresAt })
      ] }) : "the run waits for up to 30 days, then it fails" })
    ] }),
    /* @__PURE__ */ a4("div", { children: [
      /* @__PURE__ */ a4("span", { class: "muted", children: "one rejection rejects" }),
      /* @__PURE__ */ a4("span", { children: approval2.quorum === 1 ? "one approval lets the run go on" : `${approval2.quorum} approvals let the run go on` })
    ] })
  ] });
}
function bound(approval2, content) {
  if (!approval2.digest) return { state: "nothing" };
  if (content === void 0) return { state: "unseen" };
  const computed = contentDigest(content.text);
  return { state: computed === approval2.digest ? "same" : "different", computed };
}
function Decision({
  approval: approval2,
  content,
  changed
}) {
  const isTable = useSignal(true);
  const isRendered = useSignal(false);
  const checked = bound(approval2, content);
  A2(() => {
    isRendered.value = true;
  }, []);
  const rows = content ? tableRows(content.text) : void 0;
  return /* @__PURE__ */ a4($, { children: [
    content && /* @__PURE__ */ a4("div", { class: "doc", children: [
      /* @__PURE__ */ a4("header", { children: [
        /* @__PURE__ */ a4("b", { children: "What you approve" }),
        content.of && /* @__PURE__ */ a4("span", { class: "muted", children: visible(content.of) }),
        /* @__PURE__ */ a4("span", { class: "sp" }),
        rows && /* @__PURE__ */ a4($, { children: [
          /* @__PURE__ */ a4(
            "button",
            {
              type: "button",
              class: "link",
              "aria-pressed": isTable.value,
              onClick: () => {
                isTable.value = true;
              },
              children: "as table"
            }
          ),
          /* @__PURE__ */ a4(
            "button",
            {
              type: "button",
              class: "link",
              "aria-pressed": !isTable.value,
              onClick: () => {
                isTable.value = false;
              },
              children: "as JSON"
            }
          )
        ] })
      ] }),
      rows && isTable.value ? /* @__PURE__ */ a4("table", { children: /* @__PURE__ */ a4("tbody", { children: rows.map(([name, value]) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { scope: "row", children: /* @__PURE__ */ a4("bdi", { children: visible(name) }) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("bdi", { children: visible(value) }) })
      ] }, name)) }) }) : /* @__PURE__ */ a4(PayloadView, { text: content.text, label: "what you approve" })
    ] }),
    /* @__PURE__ */ a4(Binding, { approval: approval2, checked }),
    approval2.state === "pending" && /* @__PURE__ */ a4(Decide, { approval: approval2, checked, isRendered: isRendered.value, changed })
  ] });
}
function Binding({ approval: approval2, checked }) {
  switch (checked.state) {
    case "same":
      return /* @__PURE__ */ a4("p", { class: "binding t-ok", children: [
        /* @__PURE__ */ a4(Glyph, { name: "ok", size: 15 }),
        /* @__PURE__ */ a4("span", { children: [
          "Your decision is bound to exactly this text. Computed here from what is shown:",
          " ",
          /* @__PURE__ */ a4(Digest, { value: approval2.digest, short: true }),
          ", the same as the run asked for."
        ] })
      ] });
    case "different":
      return /* @__PURE__ */ a4("p", { class: "binding t-bad", role: "alert", children: [
        /* @__PURE__ */ a4(Glyph, { name: "bad", size: 15 }),
        /* @__PURE__ */ a4("span", { children: [
          /* @__PURE__ */ a4("b", { children: "Do not decide." }),
          " What is shown has the digest ",
          /* @__PURE__ */ a4(Digest, { value: checked.computed, short: true }),
          ", and the run asked about ",
          /* @__PURE__ */ a4(Digest, { value: approval2.digest, short: true }),
          "."
        ] })
      ] });
    case "unseen":
      return /* @__PURE__ */ a4("p", { class: "binding t-halt", children: [
        /* @__PURE__ */ a4(Glyph, { name: "halt", size: 15 }),
        /* @__PURE__ */ a4("span", { children: [
          "The run asked about something with the digest ",
          /* @__PURE__ */ a4(Digest, { value: approval2.digest, short: true }),
          " that the server does not have. Paste its digest below after you have looked at it elsewhere."
        ] })
      ] });
    default:
      return /* @__PURE__ */ a4("p", { class: "binding t-queue", children: [
        /* @__PURE__ */ a4(Glyph, { name: "queue", size: 15 }),
        /* @__PURE__ */ a4("span", { children: "The run asks this question without content: you decide about the sentence above." })
      ] });
  }
}
function Decide({ approval: approval2, checked, isRendered, changed }) {
  const comment = useSignal("");
  const pasted = useSignal("");
  const isRejecting = useSignal(false);
  const isBusy = useSignal(false);
  const problem = useSignal(void 0);
  const digest = checked.state === "unseen" ? pasted.value.trim() : checked.state === "same" ? checked.computed : void 0;
  const isReady = isRendered && checked.state !== "different" && (checked.state !== "unseen" || /^[0-9a-f]{64}$/.test(digest ?? ""));
  const send = async (decision) => {
    await post(`v1/approvals/${approval2.approvalId}/decide`, {
      decision,
      comment: comment.value.trim() || void 0,
      digest
    });
    await changed();
  };
  const approve = async () => {
    isBusy.value = true;
    problem.value = void 0;
    try {
      await send("APPROVED");
    } catch (error2) {
      problem.value = asProblem(error2);
    }
    isBusy.value = false;
  };
  const line2 = (verb) => command(
    "approvals",
    verb,
    approval2.approvalId,
    ...digest ? ["--digest", digest] : [],
    ...comment.value ? ["--comment", comment.value] : []
  );
  return /* @__PURE__ */ a4("div", { class: "decide", children: [
    checked.state === "unseen" && /* @__PURE__ */ a4("div", { class: "field", children: [
      /* @__PURE__ */ a4("label", { for: "digest", children: "Digest of what you have looked at" }),
      /* @__PURE__ */ a4(
        "input",
        {
          id: "digest",
          type: "text",
          class: "mono",
          spellcheck: false,
          value: pasted.value,
          onInput: (event) => {
            pasted.value = event.currentTarget.value;
          }
        }
      )
    ] }),
    /* @__PURE__ */ a4("label", { class: "vh", for: "comment", children: "Comment" }),
    /* @__PURE__ */ a4(
      "textarea",
      {
        id: "comment",
        placeholder: "Comment: why you decide so",
        maxLength: 1e3,
        value: comment.value,
        onInput: (event) => {
          comment.value = event.currentTarget.value;
        }
      }
    ),
    problem.value && /* @__PURE__ */ a4(Failed, { problem: problem.value, deed: "do" }),
    /* @__PURE__ */ a4("div", { class: "decide-foot", "data-actions": true, children: [
      /* @__PURE__ */ a4("button", { type: "button", class: "btn go", disabled: !isReady || isBusy.value, onClick: approve, children: "Approve" }),
      /* @__PURE__ */ a4(
        "button",
        {
          type: "button",
          class: "btn no danger",
          disabled: !isReady || isBusy.value,
          onClick: () => {
            isRejecting.value = true;
          },
          children: "Reject…"
        }
      ),
      /* @__PURE__ */ a4("span", { class: "muted", children: [
        "You decide as ",
        /* @__PURE__ */ a4("b", { children: visible(nameOf(person.value?.keyId ?? "")) }),
        ". It is recorded and cannot be taken back."
      ] })
    ] }),
    /* @__PURE__ */ a4(Cli, { line: line2("approve") }),
    isRejecting.value && /* @__PURE__ */ a4(
      Dialog,
      {
        title: "Reject?",
        act: "Reject it",
        isDanger: true,
        close: () => {
          isRejecting.value = false;
        },
        line: line2("reject"),
        run: () => send("REJECTED"),
        children: [
          /* @__PURE__ */ a4("p", { children: "One rejection rejects, whatever others have decided. The run is told and decides what follows. This cannot be taken back." }),
          comment.value.trim() === "" && /* @__PURE__ */ a4("p", { class: "muted", children: "You have written no comment: a reason helps the one who asked." })
        ]
      }
    )
  ] });
}

// src/pages/login.tsx
function LoginPage() {
  const typed = useSignal("");
  const problem = useSignal(void 0);
  const isBusy = useSignal(false);
  const submit = async (event) => {
    event.preventDefault();
    if (!looksLikeKey(typed.value)) {
      problem.value = new Problem(
        400,
        "not_a_key",
        "This is not an API key",
        "a key begins with `tnr_` and has four parts; copy all of it"
      );
      return;
    }
    isBusy.value = true;
    problem.value = await refusal(typed.value);
    isBusy.value = false;
    if (!problem.value) begin(typed.value);
  };
  return /* @__PURE__ */ a4("main", { class: "login", children: /* @__PURE__ */ a4("form", { class: "card pad", onSubmit: submit, children: [
    /* @__PURE__ */ a4("h1", { children: "Tenure" }),
    /* @__PURE__ */ a4("p", { class: "soft", children: "Every run, every lease, every reason." }),
    endedBecause.value && /* @__PURE__ */ a4("p", { class: "notice", role: "status", children: [
      endedBecause.value,
      "."
    ] }),
    /* @__PURE__ */ a4("label", { for: "key", children: "API key" }),
    /* @__PURE__ */ a4(
      "input",
      {
        id: "key",
        type: "password",
        autocomplete: "off",
        spellcheck: false,
        placeholder: "tnr_…",
        value: typed.value,
        onInput: (event) => {
          typed.value = event.currentTarget.value;
        }
      }
    ),
    problem.value && /* @__PURE__ */ a4(Failed, { problem: problem.value }),
    /* @__PURE__ */ a4("button", { type: "submit", class: "btn primary wide", disabled: isBusy.value || typed.value === "", children: "Log in" }),
    /* @__PURE__ */ a4("p", { class: "muted", children: "The key stays in this tab and is sent to this server only. A key to look at everything and to change nothing:" }),
    /* @__PURE__ */ a4(Cli, { line: "tenure keys create --role reader --name my-console" })
  ] }) });
}
async function refusal(secret) {
  try {
    await get("v1/runs", { query: { limit: 1 }, headers: credentialsOf(secret) });
    return void 0;
  } catch (error2) {
    const problem = asProblem(error2);
    if (problem.status === 403) return void 0;
    return problem.status === 401 ? unknown(problem) : problem;
  }
}
function unknown({ status, code: code2, requestId }) {
  return new Problem(
    status,
    code2,
    "This server does not know this key",
    "it may belong to another server, or it was revoked or has expired; ask for a new one, or make one with the command below",
    requestId
  );
}

// src/model/queues.ts
var STARVING_AFTER_MS = 5e3;
function queueRows(queues, workers, at) {
  const names2 = new Set(queues.map((queue) => queue.queue));
  const polled = workers.flatMap((worker) => worker.polls.flatMap((poll) => poll.queues));
  const idle = [...new Set(polled)].filter((name) => !names2.has(name)).map((queue) => ({ queue, ready: 0, delayed: 0, running: 0 }));
  const rows = [...queues, ...idle].map((queue) => row(queue, workers, at));
  const rank = (r4) => r4.isStarving ? 2 : r4.ready > 0 ? 1 : 0;
  return rows.sort(
    (a5, b3) => rank(b3) - rank(a5) || (b3.oldestMs ?? 0) - (a5.oldestMs ?? 0) || a5.queue.localeCompare(b3.queue)
  );
}
function row(queue, workers, at) {
  const serving = workers.filter(
    (worker) => worker.polls.some((poll) => poll.queues.includes(queue.queue)) || worker.leases.some((lease) => lease.queue === queue.queue)
  );
  const polls = workers.reduce(
    (sum, worker) => sum + worker.polls.filter((poll) => poll.queues.includes(queue.queue)).reduce((n3, poll) => n3 + poll.count, 0),
    0
  );
  const oldest = ms(queue.oldestReadyAt);
  const oldestMs = oldest === void 0 ? void 0 : Math.max(0, at - oldest);
  return {
    ...queue,
    polls,
    workers: serving.map((worker) => worker.workerId),
    oldestMs,
    isStarving: queue.ready > 0 && serving.length === 0 && !queue.pause && (oldestMs ?? 0) >= STARVING_AFTER_MS
  };
}

// src/model/sample.ts
function buckets(runs, at, spanMs, count) {
  const width = spanMs / count;
  const from = at - spanMs;
  const made = Array.from(
    { length: count },
    (_3, i4) => ({ at: from + i4 * width, succeeded: 0, failed: 0, delays: [] })
  );
  const of = (t4) => t4 === void 0 || t4 < from || t4 >= at ? void 0 : made[Math.floor((t4 - from) / width)];
  for (const run of runs) {
    const end2 = of(ms(run.completedAt));
    if (end2 && run.state === "succeeded") end2.succeeded++;
    if (end2 && (run.state === "failed" || run.state === "halted")) end2.failed++;
    const started = ms(run.startedAt);
    const due = Math.max(ms(run.createdAt), ms(run.runAt) ?? 0);
    if (started !== void 0 && run.attempt === 1) of(started)?.delays.push(Math.max(0, started - due));
  }
  for (const bucket of made) bucket.delays.sort((a5, b3) => a5 - b3);
  return made;
}
function quantile(sorted, q2) {
  return sorted.length === 0 ? Number.NaN : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q2))];
}
function failing(runs) {
  const groups = /* @__PURE__ */ new Map();
  for (const run of runs) {
    const reason = run.error?.reason ?? run.state;
    const key2 = `${run.kind}
${reason}`;
    const at = ms(run.completedAt) ?? ms(run.createdAt);
    const group = groups.get(key2) ?? {
      kind: run.kind,
      reason,
      message: run.error?.message ?? "",
      count: 0,
      last: run.runId,
      lastAt: at
    };
    group.count++;
    if (at >= group.lastAt)
      Object.assign(group, { last: run.runId, lastAt: at, message: run.error?.message ?? "" });
    groups.set(key2, group);
  }
  return [...groups.values()].sort((a5, b3) => b3.count - a5.count || b3.lastAt - a5.lastAt);
}
function axis(max) {
  if (max <= 0) return [0, 1];
  const rough = max / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((m5) => m5 * power).find((s4) => s4 >= rough));
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_3, i4) => i4 * step);
}

// src/parts/chart.tsx
var HEIGHT = 168;
var LEFT = 52;
function Chart({ series, from, to, isStacked = false, label, format = String }) {
  const box = T2(null);
  const width = useSignal(520);
  A2(() => {
    const measure = () => {
      width.value = Math.max(280, box.current?.clientWidth ?? 520);
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const count = series[0]?.values.length ?? 0;
  const totals = Array.from(
    { length: count },
    (_3, i4) => isStacked ? series.reduce((sum, s4) => sum + s4.values[i4], 0) : Math.max(0, ...series.map((s4) => s4.values[i4]).filter(isKnown))
  );
  const ticks2 = axis(Math.max(0, ...totals));
  const max = ticks2.at(-1);
  const x3 = (i4) => LEFT + i4 * (width.value - LEFT - 6) / Math.max(1, count - 1);
  const y5 = (value) => HEIGHT - 22 - value * (HEIGHT - 34) / max;
  const base2 = new Array(count).fill(0);
  return /* @__PURE__ */ a4("div", { ref: box, class: "chart", children: /* @__PURE__ */ a4("svg", { width: width.value, height: HEIGHT, role: "img", "aria-label": label, children: [
    ticks2.map((tick) => /* @__PURE__ */ a4("g", { children: [
      /* @__PURE__ */ a4("path", { class: "tick-rule", d: `M${LEFT} ${y5(tick)}H${width.value - 6}` }),
      /* @__PURE__ */ a4("text", { class: "tick", x: LEFT - 8, y: y5(tick) + 4, "text-anchor": "end", children: format(tick) })
    ] }, tick)),
    series.map((one) => {
      const upper2 = one.values.map((value, i4) => (isStacked ? base2[i4] : 0) + value);
      const line2 = path(upper2, x3, y5);
      const back = base2.map((value, i4) => `L${x3(count - 1 - i4)} ${y5(base2[count - 1 - i4] ?? value)}`).join("");
      const area = isStacked ? /* @__PURE__ */ a4("path", { class: `t-${one.tone} area`, d: `${line2}${back}Z` }) : null;
      if (isStacked)
        upper2.forEach((value, i4) => {
          base2[i4] = value;
        });
      return /* @__PURE__ */ a4("g", { children: [
        area,
        !isStacked && /* @__PURE__ */ a4("path", { class: `t-${one.tone} curve ${one.isDashed ? "dashed" : ""}`, d: line2 }),
        !isStacked && lonely(one.values).map((i4) => /* @__PURE__ */ a4("circle", { class: `t-${one.tone} dot`, cx: x3(i4), cy: y5(one.values[i4]), r: "2" }, i4))
      ] }, one.name);
    }),
    [0, 1 / 3, 2 / 3, 1].map((share) => /* @__PURE__ */ a4(
      "text",
      {
        class: "tick",
        x: LEFT + share * (width.value - LEFT - 6),
        y: HEIGHT - 4,
        "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
        children: share === 1 ? "now" : clockTime(
          from + share * (to - from),
          from + share * (to - from),
          timeStyle.value === "utc"
        ).slice(0, 5)
      },
      share
    ))
  ] }) });
}
var isKnown = (value) => value !== void 0 && !Number.isNaN(value);
function path(values, x3, y5) {
  const to = (value, i4) => `${isKnown(values[i4 - 1]) ? "L" : "M"}${x3(i4).toFixed(1)} ${y5(value).toFixed(1)}`;
  return values.map((value, i4) => isKnown(value) ? to(value, i4) : "").join("");
}
function lonely(values) {
  return values.flatMap(
    (value, i4) => isKnown(value) && !isKnown(values[i4 - 1]) && !isKnown(values[i4 + 1]) ? [i4] : []
  );
}
function Spark({ values, tone }) {
  const [width, height] = [84, 26];
  const max = Math.max(...values, 1);
  const line2 = path(
    values,
    (i4) => i4 * width / Math.max(1, values.length - 1),
    (value) => height - 2 - value * (height - 5) / max
  );
  return /* @__PURE__ */ a4("svg", { class: `spark t-${tone}`, width, height, "aria-hidden": "true", children: [
    /* @__PURE__ */ a4("path", { class: "soft-area", d: `${line2}L${width} ${height}L0 ${height}Z` }),
    /* @__PURE__ */ a4("path", { class: "curve", d: line2 })
  ] });
}
function ChartLegend({ series }) {
  return /* @__PURE__ */ a4("span", { class: "legend", children: series.map((one) => /* @__PURE__ */ a4("span", { children: [
    /* @__PURE__ */ a4("svg", { width: "14", height: "10", "aria-hidden": "true", children: /* @__PURE__ */ a4("path", { class: `t-${one.tone} curve thick ${one.isDashed ? "dashed" : ""}`, d: "M0 5H14" }) }),
    one.name
  ] }, one.name)) });
}

// src/timeline/events.ts
var text = (value) => typeof value === "string" ? value : void 0;
var number = (value) => typeof value === "number" ? value : void 0;
function eventsOf(run, entries, effects, at) {
  const completed = ms(run.completedAt);
  const reader = new Reader2();
  for (const entry of entries) reader.take(entry);
  const { attempts: attempts2, waits, children, signals } = reader;
  const last = attempts2.at(-1);
  if (last && last.ended === void 0 && run.lease) {
    last.lastBeat = Math.max(last.lastBeat, ms(run.lease.heartbeatAt));
    last.expires = ms(run.lease.expiresAt);
  }
  return {
    from: ms(run.createdAt),
    to: completed ?? at,
    isOpen: completed === void 0,
    attempts: attempts2,
    waits,
    children,
    signals,
    effects: effects.map(effectSpan),
    refused: (run.refused ?? []).map(refusal2)
  };
}
function refusal2(call2) {
  const { attempt, workerId, error: error2, verdict } = call2;
  return { at: ms(call2.at), attempt, worker: workerId, call: call2.call, error: error2, verdict };
}
function effectSpan(effect) {
  const told = [...(effect.log ?? []).map((change) => change.lastTry), effect.lastTry];
  const statuses = new Map(
    told.flatMap(
      (one) => one ? [[ms(one.at), one.status ?? void 0]] : []
    )
  );
  const last = ms(effect.lastTry?.at);
  const tries = [...statuses].map(([at, status]) => ({ at, status, isLast: at === last }));
  return {
    id: effect.effectId,
    type: effect.type,
    endpoint: effect.endpoint,
    state: effect.state,
    from: ms(effect.decidedAt),
    to: ms(effect.settledAt),
    tries
  };
}
var Reader2 = class {
  attempts = [];
  waits = [];
  children = [];
  signals = [];
  take(entry) {
    const at = ms(entry.at);
    const { detail, n: n3, kind } = entry;
    const open2 = this.attempts.at(-1)?.ended === void 0 ? this.attempts.at(-1) : void 0;
    this.step(open2, at, entry);
    if (open2 && text(detail["outcome"]) !== void 0 && closes(entry)) close(open2, at, entry);
    this.approval(at, entry);
    this.wait(at, entry);
    this.child(at, entry);
    const signal = text(detail["signal"]);
    if (signal !== void 0 && !signal.startsWith("#")) this.signals.push({ at, name: signal, n: n3 });
    if (kind === "granted") this.grant(open2, at, entry);
    else if (open2 && open2.ended === void 0) renew(open2, at, entry);
    if (kind === "started" && open2) open2.started ??= at;
  }
  grant(open2, at, entry) {
    if (open2 && open2.ended === void 0) close(open2, at, entry);
    const expires = ms(text(entry.detail["leaseExpiresAt"])) ?? at;
    this.attempts.push({
      n: entry.attempt ?? this.attempts.length + 1,
      owner: text(entry.detail["owner"]) ?? "",
      fence: number(entry.detail["fence"]) ?? 0,
      granted: at,
      leaseMs: expires - at,
      lastBeat: at,
      expires,
      steps: [],
      entry: entry.n
    });
  }
  step(open2, at, entry) {
    const key2 = text(entry.detail["step"]);
    if (key2 === void 0 || !open2) return;
    open2.started ??= at;
    open2.steps.push({ at, key: key2, isFailed: entry.detail["outcome"] === "FAILED", n: entry.n });
  }
  approval(at, entry) {
    const { detail, n: n3 } = entry;
    const approval2 = number(detail["approval"]);
    if (approval2 === void 0) return;
    const key2 = text(detail["key"]);
    let wait = this.waits.find((other) => other.approval === approval2);
    if (!wait && key2 !== void 0) {
      wait = { key: key2, kind: "approval", name: key2, from: at, approval: approval2, votes: [], entry: n3 };
      this.waits.push(wait);
    }
    if (!wait) return;
    const decision = text(detail["decision"]);
    const by = text(detail["by"]);
    if (decision !== void 0 && by !== void 0) {
      wait.votes.push({
        at,
        by,
        isApproval: decision === "APPROVED",
        comment: text(detail["comment"]) || void 0,
        n: n3
      });
    }
    const outcome = text(detail["outcome"]);
    const isClosed = entry.kind === "approval_closed" || decision !== void 0 && outcome !== void 0;
    if (isClosed && wait.to === void 0) {
      wait.to = at;
      wait.outcome = outcome === "SUCCEEDED" || outcome === "FAILED" ? decision : outcome;
    }
  }
  wait(at, entry) {
    const key2 = text(entry.detail["wait"]);
    if (key2 === void 0) return;
    const same = (wait) => wait.to === void 0 && (wait.key === key2 || wait.kind === "approval" && key2.endsWith(wait.key));
    const open2 = this.waits.find(same);
    const begins = entry.detail["outcome"] === "SUSPENDED" || entry.detail["state"] === "waiting";
    if (!begins && open2) open2.to = at;
    if (begins && !open2) this.waits.push({ key: key2, ...waitKind(key2), from: at, votes: [], entry: entry.n });
  }
  child(at, entry) {
    const { detail, n: n3 } = entry;
    const spawned = text(detail["childKey"]);
    if (spawned !== void 0 && (entry.kind === "child_spawned" || text(detail["childTaskId"]) !== void 0)) {
      this.children.push({ key: spawned, taskId: text(detail["childTaskId"]), from: at, entry: n3 });
    }
    const ended2 = text(detail["child"]);
    const child = this.children.find((child2) => child2.key === ended2);
    if (child) {
      child.to = at;
      child.state = text(detail["childState"]);
    }
  }
};
function closes(entry) {
  return entry.kind === "attempt_closed" || entry.kind !== "granted" && text(entry.detail["leaseId"]) !== void 0;
}
function close(attempt, at, entry) {
  const { detail } = entry;
  attempt.ended = at;
  attempt.outcome = text(detail["outcome"]) ?? "RELEASED";
  attempt.reason = text(detail["reason"]);
  attempt.message = text(detail["message"]);
  attempt.closedBy = entry.n;
  const isLost = attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED";
  if (isLost) attempt.lastBeat = Math.max(attempt.lastBeat, Math.min(at, at - attempt.leaseMs));
  attempt.expires = at;
}
function renew(attempt, at, entry) {
  const expires = ms(text(entry.detail["leaseExpiresAt"]));
  if (expires === void 0) return;
  attempt.lastBeat = at;
  attempt.expires = expires;
}
function waitKind(key2) {
  const plain3 = key2.replace(/^wait:/, "").replace(/#\d+$/, "");
  const [kind, ...rest] = plain3.split(":");
  const name = rest.join(":");
  if (kind === "sleep") return { kind: "sleep", name: "Sleep" };
  if (kind === "signal") return { kind: "signal", name: name || plain3 };
  if (kind === "approval") return { kind: "approval", name: name || plain3 };
  if (kind === "child") return { kind: "child", name: name || plain3 };
  return { kind: "other", name: plain3 };
}

// src/pages/overview.tsx
var SAMPLE = 400;
var SPANS = { "15m": 9e5, "1h": 36e5, "24h": 864e5 };
var BUCKETS = 48;
var SUSPECTS_MAX = 8;
var ended = /* @__PURE__ */ new Map();
async function readTrouble(listed, signal) {
  const known = ended.get(listed.runId);
  if (known) return known;
  const [run, history2] = await Promise.all([
    get(`v1/runs/${listed.runId}`, { signal }),
    get(`v1/runs/${listed.runId}/history`, { query: { limit: 500 }, signal })
  ]);
  const trouble = { run, events: eventsOf(run, history2.entries, [], now()) };
  if (isEnded(run.state) && now() - ms(run.completedAt) > 6e4) ended.set(run.runId, trouble);
  return trouble;
}
async function read(spanMs, signal) {
  const since = new Date(now() - spanMs).toISOString();
  const runs = (query) => get("v1/runs", { query, signal });
  const optional = (reading) => reading.catch(() => void 0);
  const [recent, failed, halted, running2, approvals2, dead, queues, workers, setAside] = await Promise.all([
    runs({ since, limit: SAMPLE }),
    runs({ state: "failed", since, limit: 200 }),
    runs({ state: "halted", since, limit: 50 }),
    runs({ state: "running", limit: 100 }),
    optional(get("v1/approvals", { query: { state: "pending", limit: 50 }, signal })),
    access.value.mayReadEffects ? optional(get("v1/effects", { query: { state: "dead", limit: 20 }, signal })) : void 0,
    optional(get("v1/queues", { signal })),
    optional(get("v1/workers", { query: { limit: 1e3 }, signal })),
    optional(get("v1/set-aside", { signal }))
  ]);
  const suspects = recent.runs.filter((run) => run.attempt > 1 || run.lost > 0).slice(0, SUSPECTS_MAX);
  const troubles = await Promise.all(suspects.map((run) => optional(readTrouble(run, signal))));
  return {
    recent,
    failed: failed.runs,
    halted: halted.runs,
    running: running2.runs,
    troubles: troubles.filter((trouble) => trouble !== void 0),
    approvals: approvals2?.approvals ?? [],
    dead: dead?.effects ?? [],
    queues: queueRows(queues?.queues ?? [], workers?.workers ?? [], now()),
    setAside: setAside?.tasks.length ?? 0,
    at: now()
  };
}
function OverviewPage() {
  const name = place.value.query.get("span") ?? "1h";
  const spanMs = SPANS[name] ?? 36e5;
  const query = useQuery(`overview ${name}`, "overview", (signal) => read(spanMs, signal));
  const state = query.data.value;
  document.title = "Overview · Tenure";
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("div", { class: "head", children: [
      /* @__PURE__ */ a4("h1", { children: "Overview" }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      /* @__PURE__ */ a4("nav", { class: "segments", "aria-label": "Span", children: Object.keys(SPANS).map((each) => /* @__PURE__ */ a4(
        "a",
        {
          class: each === name ? "on" : "",
          "aria-current": each === name ? "true" : void 0,
          href: withQuery({ span: each }) || "./",
          children: each.replace("m", " min").replace("h", " h")
        },
        each
      )) })
    ] }),
    query.problem.value && /* @__PURE__ */ a4(Failed, { problem: query.problem.value, again: query.again }),
    !state && !query.problem.value && /* @__PURE__ */ a4(Loading, { rows: 14 }),
    state && state.recent.runs.length === 0 && state.running.length === 0 && state.queues.length === 0 ? /* @__PURE__ */ a4(Fresh, {}) : state && /* @__PURE__ */ a4(Shown2, { state, spanMs })
  ] });
}
function Fresh() {
  return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(
    Empty,
    {
      title: "Nothing has run here lately",
      lines: [
        "tenure work --queue demo --exec cat",
        `tenure submit hello --queue demo --input '{"name":"Ada"}' --wait`,
        "tenure tour"
      ],
      children: "Any program can be a worker. Start one, submit a run, and watch it here."
    }
  ) });
}
function Shown2({ state, spanMs }) {
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(NeedsYou, { state }),
    /* @__PURE__ */ a4(Figures, { state, spanMs }),
    /* @__PURE__ */ a4(Plots, { state, spanMs }),
    /* @__PURE__ */ a4("div", { class: "three", children: [
      /* @__PURE__ */ a4(QueuesCard, { state }),
      /* @__PURE__ */ a4(LeasesCard, { state }),
      /* @__PURE__ */ a4(TakeoversCard, { state })
    ] }),
    state.failed.length > 0 && /* @__PURE__ */ a4(FailingCard, { state })
  ] });
}
function needs(state) {
  const found = [];
  for (const queue of state.queues.filter((queue2) => queue2.isStarving)) {
    found.push({
      id: `queue ${queue.queue}`,
      tone: "bad",
      glyph: "bad",
      title: `${queue.queue}: ${queue.ready} ${queue.ready === 1 ? "run waits" : "runs wait"}, and no worker polls`,
      note: "",
      since: ms(queue.oldestReadyAt),
      to: `queues/${queue.queue.replaceAll("/", "~")}`,
      act: "Show queue"
    });
  }
  for (const effect of state.dead) {
    found.push({
      id: effect.effectId,
      tone: "bad",
      glyph: "bad",
      title: `${effect.endpoint} did not take ${effect.type}: dead after ${effect.tries} ${effect.tries === 1 ? "try" : "tries"}`,
      note: effect.blocks ? "what follows it waits" : "",
      since: ms(effect.settledAt) ?? ms(effect.decidedAt),
      to: `effects/${effect.effectId}`,
      act: "Look"
    });
  }
  const approvals2 = [...state.approvals].sort(
    (a5, b3) => (ms(a5.expiresAt) ?? Number.MAX_VALUE) - (ms(b3.expiresAt) ?? Number.MAX_VALUE)
  );
  for (const approval2 of approvals2) {
    const expires = approval2.expiresAt ? `; ${(approval2.default ?? "EXPIRED").toLowerCase()} ${relative(ms(approval2.expiresAt), clock.value)}` : "";
    const votes = approval2.votes.filter((vote) => vote.decision === "APPROVED").length;
    found.push({
      id: approval2.approvalId,
      tone: "wait",
      glyph: "wait",
      title: approval2.subject ?? approval2.key,
      note: `${votes} of ${approval2.quorum} approved${expires}`,
      since: ms(approval2.openedAt),
      to: `inbox/${approval2.approvalId}`,
      act: "Decide"
    });
  }
  for (const run of state.halted.filter((run2) => (run2.forks ?? []).length === 0)) {
    found.push({
      id: run.runId,
      tone: "halt",
      glyph: "halt",
      title: `${run.kind} halted: ${run.error?.message ?? ""}`,
      note: `${run.durable?.steps ?? 0} recorded steps are kept`,
      since: ms(run.completedAt) ?? 0,
      to: `runs/${run.runId}`,
      act: "Look"
    });
  }
  for (const queue of state.queues.filter((queue2) => queue2.pause && queue2.ready > 0)) {
    found.push({
      id: `pause ${queue.queue}`,
      tone: "retry",
      glyph: "park",
      title: `${queue.queue} is paused, and ${queue.ready} ${queue.ready === 1 ? "waits" : "wait"}`,
      note: queue.pause?.reason ?? "",
      since: ms(queue.pause?.pausedAt) ?? 0,
      to: `queues/${queue.queue.replaceAll("/", "~")}`,
      act: "Show queue"
    });
  }
  if (state.setAside > 0)
    found.push({
      id: "set-aside",
      tone: "bad",
      glyph: "bad",
      title: `${state.setAside} tasks are set aside`,
      note: "the server could not decide about them",
      since: state.at,
      to: "runs",
      act: "Look"
    });
  return found;
}
function NeedsYou({ state }) {
  const all = needs(state);
  if (all.length === 0) {
    return /* @__PURE__ */ a4("section", { class: "card calm t-ok", children: [
      /* @__PURE__ */ a4(Glyph, { name: "ok", size: 15 }),
      " ",
      /* @__PURE__ */ a4("b", { children: "Nothing waits for a person" })
    ] });
  }
  const oldest = Math.min(...all.map((need) => need.since));
  return /* @__PURE__ */ a4(
    Card,
    {
      title: "Needs you",
      note: `${all.length > 5 ? `5 of ${all.length}` : all.length}, the oldest since ${roughly(clock.value - oldest)}`,
      aside: /* @__PURE__ */ a4("a", { href: "inbox", children: "Inbox" }),
      children: /* @__PURE__ */ a4("ul", { class: "needs", children: all.slice(0, 5).map((need) => /* @__PURE__ */ a4("li", { children: [
        /* @__PURE__ */ a4("span", { class: `t-${need.tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: need.glyph, size: 15 }) }),
        /* @__PURE__ */ a4("span", { class: "what", children: [
          /* @__PURE__ */ a4("b", { children: /* @__PURE__ */ a4("bdi", { children: visible(need.title) }) }),
          " ",
          /* @__PURE__ */ a4("span", { class: "soft", children: visible(need.note) })
        ] }),
        /* @__PURE__ */ a4("span", { class: "muted nowrap", children: [
          "since ",
          roughly(clock.value - need.since)
        ] }),
        /* @__PURE__ */ a4("a", { class: "btn", "data-row": true, href: need.to, "aria-label": `${need.act}: ${need.title}`, children: need.act })
      ] }, need.id)) })
    }
  );
}
function Figure({
  name,
  value,
  note,
  children,
  tone
}) {
  return /* @__PURE__ */ a4("div", { class: "figure", children: [
    /* @__PURE__ */ a4("span", { class: "soft", children: name }),
    /* @__PURE__ */ a4("span", { class: "value", children: [
      /* @__PURE__ */ a4("b", { class: tone ? `t-${tone} ink` : "", children: value }),
      children
    ] }),
    /* @__PURE__ */ a4("span", { class: "muted", children: note })
  ] });
}
function Figures({ state, spanMs }) {
  const series = buckets(state.recent.runs, state.at, spanMs, 24);
  const ended2 = series.map((bucket) => bucket.succeeded + bucket.failed);
  const total = ended2.reduce((a5, b3) => a5 + b3, 0);
  const failed = series.reduce((sum, bucket) => sum + bucket.failed, 0);
  const waiting2 = state.queues.reduce((sum, queue) => sum + queue.ready, 0);
  const delayed = state.queues.reduce((sum, queue) => sum + queue.delayed, 0);
  const parked = state.queues.reduce((sum, queue) => sum + (queue.parked ?? 0), 0);
  const oldest = state.queues.filter((queue) => queue.oldestMs !== void 0).sort((a5, b3) => b3.oldestMs - a5.oldestMs)[0];
  const workers = new Set(state.running.map((run) => run.lease?.owner).filter(Boolean)).size;
  const lost2 = state.troubles.reduce(
    (sum, { events }) => sum + events.attempts.filter((attempt) => attempt.outcome === "LOST").length,
    0
  );
  const refused2 = state.troubles.reduce((sum, { events }) => sum + events.refused.length, 0);
  return /* @__PURE__ */ a4("section", { class: "card figures", "aria-label": "Figures", children: [
    /* @__PURE__ */ a4(
      Figure,
      {
        name: "Ended",
        value: String(total),
        note: `in ${span(spanMs).replace(" 00 s", "").replace(" 00 min", "")}${state.recent.nextCursor ? `, of the newest ${state.recent.runs.length}` : ""}`,
        children: /* @__PURE__ */ a4(Spark, { values: ended2, tone: "ok" })
      }
    ),
    /* @__PURE__ */ a4(Figure, { name: "Waiting", value: String(waiting2), note: `+ ${parked} parked, ${delayed} delayed` }),
    /* @__PURE__ */ a4(
      Figure,
      {
        name: "Oldest waiting",
        value: oldest ? roughly(oldest.oldestMs) : "–",
        note: oldest ? visible(oldest.queue) : "nothing waits",
        tone: oldest?.isStarving ? "bad" : void 0
      }
    ),
    /* @__PURE__ */ a4(
      Figure,
      {
        name: "Running",
        value: `${state.running.length}${state.running.length === 100 ? "+" : ""}`,
        note: `on ${workers} ${workers === 1 ? "worker" : "workers"}`
      }
    ),
    /* @__PURE__ */ a4(
      Figure,
      {
        name: "Failed or halted",
        value: total === 0 ? "–" : `${(100 * failed / total).toFixed(failed === 0 || failed * 10 > total ? 0 : 2)} %`,
        note: `${failed} of ${total}`,
        tone: failed > 0 ? "bad" : void 0,
        children: /* @__PURE__ */ a4(Spark, { values: series.map((bucket) => bucket.failed), tone: "bad" })
      }
    ),
    /* @__PURE__ */ a4(
      Figure,
      {
        name: "Refused reports",
        value: String(refused2),
        note: `and ${lost2} lost ${lost2 === 1 ? "attempt" : "attempts"}`,
        tone: refused2 > 0 ? "refused" : void 0
      }
    )
  ] });
}
function Plots({ state, spanMs }) {
  const series = buckets(state.recent.runs, state.at, spanMs, BUCKETS);
  const perMinute = (n3) => n3 * BUCKETS * 6e4 / spanMs;
  const ended2 = [
    { name: "succeeded", tone: "ok", values: series.map((bucket) => perMinute(bucket.succeeded)) },
    { name: "failed", tone: "bad", values: series.map((bucket) => perMinute(bucket.failed)) }
  ];
  const delays = [
    { name: "p50", tone: "run", values: series.map((bucket) => quantile(bucket.delays, 0.5)) },
    {
      name: "p95",
      tone: "wait",
      values: series.map((bucket) => quantile(bucket.delays, 0.95)),
      isDashed: true
    }
  ];
  const note = state.recent.nextCursor ? `of the newest ${state.recent.runs.length} runs` : "";
  const range = { from: state.at - spanMs, to: state.at };
  const max = axis(Math.max(0, ...delays[1].values.filter((value) => !Number.isNaN(value)))).at(-1);
  return /* @__PURE__ */ a4("div", { class: "two", children: [
    /* @__PURE__ */ a4(Card, { title: "Ended per minute", note, aside: /* @__PURE__ */ a4(ChartLegend, { series: ended2 }), children: /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: /* @__PURE__ */ a4(Chart, { series: ended2, isStacked: true, label: `Ended per minute ${note}`, ...range }) }) }),
    /* @__PURE__ */ a4(Card, { title: "Time from ready to started", note, aside: /* @__PURE__ */ a4(ChartLegend, { series: delays }), children: /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: /* @__PURE__ */ a4(
      Chart,
      {
        series: delays,
        label: `Time from ready to started, at most ${span(max)}`,
        format: (value) => value === 0 ? "0" : roughly(value),
        ...range
      }
    ) }) })
  ] });
}
function served(queue) {
  if (queue.pause) return /* @__PURE__ */ a4("b", { class: "t-retry ink", children: "paused" });
  if (queue.isStarving) return /* @__PURE__ */ a4("b", { class: "t-bad ink", children: "no worker" });
  if (queue.polls > 0) return `${queue.polls} ${queue.polls === 1 ? "polls" : "poll"}`;
  return queue.workers.length > 0 ? `${queue.workers.length} busy` : "no worker";
}
function QueuesCard({ state }) {
  return /* @__PURE__ */ a4(Card, { title: "Queues", aside: /* @__PURE__ */ a4("a", { href: "queues", children: [
    "all ",
    state.queues.length
  ] }), children: [
    state.queues.length === 0 && /* @__PURE__ */ a4("p", { class: "pad-x muted", children: "No queue has work or a worker." }),
    state.queues.length > 0 && /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: "queue" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "waiting" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "running" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "oldest" }),
        /* @__PURE__ */ a4("th", { children: "workers" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: state.queues.slice(0, 6).map((queue) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("a", { class: "clip", href: `queues/${queue.queue.replaceAll("/", "~")}`, children: visible(queue.queue) }) }),
        /* @__PURE__ */ a4("td", { class: "num r", children: queue.ready }),
        /* @__PURE__ */ a4("td", { class: "num r", children: queue.running }),
        /* @__PURE__ */ a4("td", { class: "num r", children: queue.oldestMs === void 0 ? "" : roughly(queue.oldestMs) }),
        /* @__PURE__ */ a4("td", { class: "nowrap", children: served(queue) })
      ] }, queue.queue)) })
    ] })
  ] });
}
function LeasesCard({ state }) {
  const held = state.running.filter((run) => run.lease).sort((a5, b3) => ms(a5.lease.expiresAt) - ms(b3.lease.expiresAt));
  return /* @__PURE__ */ a4(Card, { title: "Next leases to expire", aside: /* @__PURE__ */ a4("a", { href: "queues?tab=leases", children: [
    "all ",
    held.length
  ] }), children: [
    held.length === 0 && /* @__PURE__ */ a4("p", { class: "pad-x muted", children: "No lease is held." }),
    held.length > 0 && /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: "run" }),
        /* @__PURE__ */ a4("th", { children: "worker" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "ends in" }),
        /* @__PURE__ */ a4("th", { children: /* @__PURE__ */ a4("span", { class: "vh", children: "share of the lease" }) })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: held.slice(0, 6).map((run) => /* @__PURE__ */ a4(LeaseRow, { run }, run.runId)) })
    ] })
  ] });
}
function LeaseRow({ run }) {
  const lease = run.lease;
  const left2 = ms(lease.expiresAt) - clock.value;
  const whole = Math.max(1, ms(lease.expiresAt) - ms(lease.heartbeatAt));
  const share = Math.min(1, Math.max(0, left2 / whole));
  const tone = share < 0.15 ? "bad" : share < 0.4 ? "retry" : "run";
  return /* @__PURE__ */ a4("tr", { children: [
    /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("a", { class: "clip", "data-row": true, href: `runs/${run.runId}`, children: visible(run.kind) }) }),
    /* @__PURE__ */ a4("td", { class: "soft", children: /* @__PURE__ */ a4("span", { class: "clip", children: visible(lease.owner) }) }),
    /* @__PURE__ */ a4("td", { class: `num r t-${tone} ${tone === "run" ? "" : "ink"}`, children: left2 <= 0 ? "expired" : span(left2) }),
    /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("span", { class: `meter t-${tone}`, children: /* @__PURE__ */ a4("i", { style: { width: `${Math.round(100 * share)}%` } }) }) })
  ] });
}
function happeningsOf({ run, events }) {
  const refusals2 = events.refused.map(
    (call2, i4) => ({
      id: `${run.runId} ${i4}`,
      at: call2.at,
      glyph: "refused",
      tone: "refused",
      what: `${call2.call} of ${call2.worker}`,
      run
    })
  );
  const takeovers2 = events.attempts.flatMap((attempt, i4) => {
    const before = events.attempts[i4 - 1];
    if (before?.outcome !== "LOST") return [];
    return [
      {
        id: `${run.runId} t${i4}`,
        at: attempt.granted,
        glyph: "take",
        tone: "retry",
        what: `${attempt.owner} from ${before.owner}`,
        run
      }
    ];
  });
  return [...refusals2, ...takeovers2];
}
function TakeoversCard({ state }) {
  const happenings = state.troubles.flatMap(happeningsOf);
  happenings.sort((a5, b3) => b3.at - a5.at);
  return /* @__PURE__ */ a4(Card, { title: "Takeovers and refusals", children: [
    happenings.length === 0 && /* @__PURE__ */ a4("p", { class: "pad-x pad-b muted", children: "None. A worker that dies or goes silent loses its lease, another one takes over, and a late report is refused: it would be shown here." }),
    happenings.length > 0 && /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: /* @__PURE__ */ a4("span", { class: "vh", children: "kind" }) }),
        /* @__PURE__ */ a4("th", { children: "what" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "when" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: happenings.slice(0, 6).map((one) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { class: `t-${one.tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: one.glyph, size: 13 }) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("span", { class: "clip", children: [
          visible(one.what),
          ", ",
          /* @__PURE__ */ a4("a", { href: `runs/${one.run.runId}`, children: visible(one.run.kind) })
        ] }) }),
        /* @__PURE__ */ a4("td", { class: "r nowrap", children: /* @__PURE__ */ a4(Time, { at: one.at }) })
      ] }, one.id)) })
    ] })
  ] });
}
function FailingCard({ state }) {
  const look2 = stateLook("failed");
  return /* @__PURE__ */ a4(
    Card,
    {
      title: "Failing kinds",
      note: `${state.failed.length}${state.failed.length === 200 ? " or more" : ""} failed runs`,
      aside: /* @__PURE__ */ a4("a", { href: "runs?state=failed", children: "all failed" }),
      children: /* @__PURE__ */ a4("table", { children: [
        /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
          /* @__PURE__ */ a4("th", { children: "kind" }),
          /* @__PURE__ */ a4("th", { children: "reason" }),
          /* @__PURE__ */ a4("th", { class: "r", children: "runs" }),
          /* @__PURE__ */ a4("th", { class: "r", children: "last" }),
          /* @__PURE__ */ a4("th", { class: "hide-narrow", children: "message of the last" })
        ] }) }),
        /* @__PURE__ */ a4("tbody", { children: failing(state.failed).slice(0, 6).map((group) => /* @__PURE__ */ a4("tr", { children: [
          /* @__PURE__ */ a4("td", { class: "nowrap", children: [
            /* @__PURE__ */ a4("span", { class: `t-${look2.tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: look2.glyph }) }),
            " ",
            /* @__PURE__ */ a4("a", { href: `runs?state=failed&kind=${encodeURIComponent(group.kind)}`, children: visible(group.kind) })
          ] }),
          /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("code", { children: group.reason }) }),
          /* @__PURE__ */ a4("td", { class: "num r", children: group.count }),
          /* @__PURE__ */ a4("td", { class: "r nowrap", children: /* @__PURE__ */ a4(Time, { at: group.lastAt }) }),
          /* @__PURE__ */ a4("td", { class: "wide-cell hide-narrow", children: /* @__PURE__ */ a4("a", { href: `runs/${group.last}`, children: visible(group.message) }) })
        ] }, group.kind + group.reason)) })
      ] })
    }
  );
}

// src/pages/queues.tsx
var TABS = [
  ["queues", "Queues"],
  ["workers", "Workers"],
  ["leases", "Leases"],
  ["flow", "Flow keys"]
];
function QueuesPage({ name }) {
  const tab = place.value.query.get("tab") ?? "queues";
  const only = name?.replaceAll("~", "/");
  document.title = "Queues · Tenure";
  return /* @__PURE__ */ a4($, { children: [
    only && /* @__PURE__ */ a4(Crumb, { name: "Queues", to: "queues" }),
    /* @__PURE__ */ a4(Head, { title: only ?? "Queues" }),
    /* @__PURE__ */ a4(
      Tabs,
      {
        tabs: TABS.map(([id, title]) => [id, only && id === "queues" ? "Queue" : title]),
        on: TABS.some(([id]) => id === tab) ? tab : "queues"
      }
    ),
    tab === "workers" && /* @__PURE__ */ a4(WorkersTab, { only }),
    tab === "leases" && /* @__PURE__ */ a4(LeasesTab, { only }),
    tab === "flow" && /* @__PURE__ */ a4(FlowTab, {}),
    !["workers", "leases", "flow"].includes(tab) && /* @__PURE__ */ a4(QueuesTab, { only })
  ] });
}
function QueuesTab({ only }) {
  const query = useQuery("queues", "queues", async (signal) => {
    const [queues, workers] = await Promise.all([
      get("v1/queues", { signal }),
      get("v1/workers", { query: { limit: 1e3 }, signal })
    ]);
    return queueRows(queues.queues, workers.workers, now());
  });
  return /* @__PURE__ */ a4(Read, { query, children: (all) => {
    const rows = only === void 0 ? all : all.filter((row2) => row2.queue === only);
    if (rows.length === 0) {
      return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(
        Empty,
        {
          title: only ? "Nothing waits or runs in this queue" : "No queue has work or a worker",
          lines: [
            command("work", "--queue", only ?? "demo", "--exec", "cat"),
            command("submit", "hello", "--queue", only ?? "demo", "--wait")
          ],
          children: "A queue exists as soon as a run names it or a worker polls it."
        }
      ) });
    }
    return /* @__PURE__ */ a4($, { children: [
      rows.map((row2) => /* @__PURE__ */ a4(QueueCard, { row: row2, again: query.again }, row2.queue)),
      /* @__PURE__ */ a4(Foot, { lines: ["tenure queues"] })
    ] });
  } });
}
function QueueCard({ row: row2, again }) {
  const open2 = useSignal(void 0);
  const close2 = () => {
    open2.value = void 0;
  };
  return /* @__PURE__ */ a4("section", { class: "card queue", "aria-label": row2.queue, children: [
    /* @__PURE__ */ a4("div", { class: "queue-head", children: [
      /* @__PURE__ */ a4(
        "span",
        {
          class: `t-${row2.isStarving ? "bad" : row2.pause ? "retry" : row2.running > 0 ? "run" : "queue"} ink`,
          children: /* @__PURE__ */ a4(
            Glyph,
            {
              name: row2.isStarving ? "bad" : row2.pause ? "park" : row2.running > 0 ? "run" : "queue",
              size: 14
            }
          )
        }
      ),
      /* @__PURE__ */ a4("h2", { children: /* @__PURE__ */ a4("a", { "data-row": true, href: `queues/${inPath(row2.queue)}`, children: visible(row2.queue) }) }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      row2.pause ? /* @__PURE__ */ a4(
        "button",
        {
          type: "button",
          class: "btn",
          onClick: () => {
            open2.value = "resume";
          },
          children: "Resume…"
        }
      ) : /* @__PURE__ */ a4(
        "button",
        {
          type: "button",
          class: "btn",
          onClick: () => {
            open2.value = "pause";
          },
          children: "Pause…"
        }
      ),
      /* @__PURE__ */ a4("a", { class: "btn", href: `runs?queue=${encodeURIComponent(row2.queue)}`, children: "Runs" })
    ] }),
    row2.isStarving && /* @__PURE__ */ a4("p", { class: "t-bad ink", children: [
      /* @__PURE__ */ a4("b", { children: "No worker polls this queue." }),
      " ",
      row2.ready,
      " ",
      row2.ready === 1 ? "run waits" : "runs wait",
      " for one since ",
      roughly(row2.oldestMs ?? 0),
      "."
    ] }),
    row2.pause && /* @__PURE__ */ a4("p", { class: "t-retry ink", children: [
      "Paused by ",
      /* @__PURE__ */ a4("b", { title: row2.pause.pausedBy, children: visible(nameOf(row2.pause.pausedBy)) }),
      " ",
      /* @__PURE__ */ a4(Time, { at: row2.pause.pausedAt }),
      row2.pause.reason ? /* @__PURE__ */ a4($, { children: [
        ": ",
        /* @__PURE__ */ a4("bdi", { children: [
          "“",
          visible(row2.pause.reason),
          "”"
        ] })
      ] }) : "",
      ". Nothing is leased from it; what runs goes on."
    ] }),
    /* @__PURE__ */ a4("dl", { class: "numbers", children: [
      /* @__PURE__ */ a4(Count, { name: "waiting", value: row2.ready }),
      /* @__PURE__ */ a4(Count, { name: "running", value: row2.running }),
      /* @__PURE__ */ a4(Count, { name: "delayed", value: row2.delayed }),
      /* @__PURE__ */ a4(Count, { name: "parked", value: row2.parked ?? 0 }),
      /* @__PURE__ */ a4(Count, { name: "oldest", value: row2.oldestMs === void 0 ? "–" : span(row2.oldestMs) }),
      /* @__PURE__ */ a4(Count, { name: "polls", value: row2.polls }),
      /* @__PURE__ */ a4("div", { children: [
        /* @__PURE__ */ a4("dt", { children: "workers" }),
        /* @__PURE__ */ a4("dd", { children: [
          row2.workers.length === 0 ? "none" : row2.workers.slice(0, 6).map((worker) => /* @__PURE__ */ a4("a", { class: "tag", href: `runs?worker=${encodeURIComponent(worker)}`, children: visible(worker) }, worker)),
          row2.workers.length > 6 && ` and ${row2.workers.length - 6} more`
        ] })
      ] })
    ] }),
    open2.value && /* @__PURE__ */ a4(PauseDialog, { row: row2, verb: open2.value, close: close2, again })
  ] });
}
function Count({ name, value }) {
  return /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { class: "num", children: value })
  ] });
}
function PauseDialog({
  row: row2,
  verb,
  close: close2,
  again
}) {
  const reason = useSignal("");
  const isPause = verb === "pause";
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: isPause ? `Pause ${row2.queue}?` : `Resume ${row2.queue}?`,
      act: isPause ? "Pause the queue" : "Resume the queue",
      isDanger: isPause,
      close: close2,
      line: command(
        "queues",
        verb,
        row2.queue,
        ...isPause && reason.value ? ["--reason", reason.value] : []
      ),
      run: async () => {
        await post(
          `v1/queues/${inPath(row2.queue)}/${verb}`,
          isPause ? { reason: reason.value || void 0 } : {}
        );
        await again();
      },
      children: isPause ? /* @__PURE__ */ a4($, { children: [
        /* @__PURE__ */ a4("p", { children: [
          "Nothing more is leased from ",
          /* @__PURE__ */ a4("code", { children: visible(row2.queue) }),
          ": ",
          row2.ready,
          " waiting runs stay where they are. ",
          row2.running,
          " running ones go on, and so do submits, cancels and deadlines."
        ] }),
        /* @__PURE__ */ a4("div", { class: "field", children: [
          /* @__PURE__ */ a4("label", { for: "reason", children: "Reason, for people who wonder why nothing runs" }),
          /* @__PURE__ */ a4(
            "input",
            {
              id: "reason",
              type: "text",
              maxLength: 200,
              value: reason.value,
              onInput: (event) => {
                reason.value = event.currentTarget.value;
              }
            }
          )
        ] })
      ] }) : /* @__PURE__ */ a4("p", { children: [
        "Workers get tasks from ",
        /* @__PURE__ */ a4("code", { children: visible(row2.queue) }),
        " again at once: ",
        row2.ready,
        " wait."
      ] })
    }
  );
}
function WorkersTab({ only }) {
  const query = useQuery(
    "workers",
    "queues",
    (signal) => get("v1/workers", { query: { limit: 1e3 }, signal })
  );
  return /* @__PURE__ */ a4(Read, { query, children: (all) => {
    const workers = all.workers.filter(
      (worker) => only === void 0 || worker.polls.some((poll) => poll.queues.includes(only)) || worker.leases.some((lease) => lease.queue === only)
    );
    if (workers.length === 0)
      return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(
        Empty,
        {
          title: "No worker polls or holds a lease",
          lines: [command("work", "--queue", only ?? "demo", "--exec", "cat")],
          children: "A worker appears here with its first poll."
        }
      ) });
    return /* @__PURE__ */ a4(
      Card,
      {
        title: "Workers",
        note: `${workers.length}, as ${all.coordinators} ${all.coordinators === 1 ? "coordinator sees" : "coordinators see"} them`,
        children: /* @__PURE__ */ a4("table", { children: [
          /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
            /* @__PURE__ */ a4("th", { children: "worker" }),
            /* @__PURE__ */ a4("th", { children: "polls for" }),
            /* @__PURE__ */ a4("th", { class: "r", children: "leases" }),
            /* @__PURE__ */ a4("th", { class: "r", children: "oldest lease" }),
            /* @__PURE__ */ a4("th", { class: "r", children: "next expiry" }),
            /* @__PURE__ */ a4("th", { class: "r", children: "last heartbeat" })
          ] }) }),
          /* @__PURE__ */ a4("tbody", { children: workers.map((worker) => {
            const leases = worker.leases;
            const count = leases.reduce((sum, lease) => sum + lease.count, 0);
            const least = (times) => times.length === 0 ? "" : roughly(Math.abs(clock.value - Math.min(...times)));
            return /* @__PURE__ */ a4("tr", { children: [
              /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("a", { "data-row": true, href: `runs?worker=${encodeURIComponent(worker.workerId)}`, children: visible(worker.workerId) }) }),
              /* @__PURE__ */ a4("td", { class: "wide-cell", children: worker.polls.length === 0 ? /* @__PURE__ */ a4("span", { class: "muted", children: "busy, or gone" }) : worker.polls.map(
                (poll) => visible(
                  poll.queues.join(", ") + (poll.kinds?.length ? ` (${poll.kinds.join(", ")})` : "")
                )
              ).join("; ") }),
              /* @__PURE__ */ a4("td", { class: "num r", children: count }),
              /* @__PURE__ */ a4("td", { class: "num r", children: least(leases.map((lease) => ms(lease.oldestAcquiredAt))) }),
              /* @__PURE__ */ a4("td", { class: "num r", children: least(leases.map((lease) => ms(lease.nextExpiresAt))) }),
              /* @__PURE__ */ a4("td", { class: "num r", children: leases.length === 0 ? "" : roughly(
                clock.value - Math.max(...leases.map((lease) => ms(lease.latestHeartbeatAt)))
              ) })
            ] }, worker.workerId);
          }) })
        ] })
      }
    );
  } });
}
function LeasesTab({ only }) {
  const query = useQuery(
    `leases ${only ?? ""}`,
    "runs",
    (signal) => get("v1/runs", { query: { state: "running", queue: only, limit: 200, children: true }, signal })
  );
  return /* @__PURE__ */ a4(Read, { query, children: (list) => {
    const held = list.runs.filter((run) => run.lease).sort((a5, b3) => ms(a5.lease.expiresAt) - ms(b3.lease.expiresAt));
    if (held.length === 0)
      return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Empty, { title: "No lease is held", children: "A lease says which worker may do and report a task, and until when." }) });
    return /* @__PURE__ */ a4(Card, { title: "Leases", note: `${held.length}${list.nextCursor ? " of more" : ""}, by expiry`, children: /* @__PURE__ */ a4("table", { children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { children: "run" }),
        /* @__PURE__ */ a4("th", { children: "worker" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "ends in" }),
        /* @__PURE__ */ a4("th", { children: /* @__PURE__ */ a4("span", { class: "vh", children: "share of the lease" }) })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: held.map((run) => /* @__PURE__ */ a4(LeaseRow, { run }, run.runId)) })
    ] }) });
  } });
}
function FlowTab() {
  const query = useQuery(
    "flow",
    "queues",
    (signal) => get("v1/flow-keys", { query: { limit: 200 }, signal })
  );
  return /* @__PURE__ */ a4(Read, { query, children: (list) => list.flowKeys.length === 0 ? /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Empty, { title: "No flow keys are in use", children: "Runs that share a flow key take turns: only so many of them are active at once, or start within a time." }) }) : /* @__PURE__ */ a4(Card, { title: "Flow keys", note: "how many hold a slot, and how many wait for one", children: /* @__PURE__ */ a4("table", { children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "key" }),
      /* @__PURE__ */ a4("th", { class: "r", children: "holds" }),
      /* @__PURE__ */ a4("th", { class: "r", children: "limit" }),
      /* @__PURE__ */ a4("th", { class: "r", children: "parked" }),
      /* @__PURE__ */ a4("th", { children: "opens" }),
      /* @__PURE__ */ a4("th", { children: "holders" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: list.flowKeys.map((key2) => /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("td", { class: "strong", children: visible(key2.key) }),
      /* @__PURE__ */ a4("td", { class: "num r", children: key2.held }),
      /* @__PURE__ */ a4("td", { class: "num r", children: key2.limit ?? "–" }),
      /* @__PURE__ */ a4("td", { class: "num r", children: key2.parked }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: key2.opensAt }) }),
      /* @__PURE__ */ a4("td", { class: "wide-cell", children: key2.holders.slice(0, 4).map((id) => /* @__PURE__ */ a4("a", { class: "tag", href: `runs/${id}`, children: id }, id)) })
    ] }, key2.key)) })
  ] }) }) });
}

// src/model/story.ts
var plain = (text2) => ({ text: text2 });
var strong = (text2, tone) => ({ text: text2, style: "strong", tone });
var code = (text2) => ({ text: text2, style: "code" });
var TOLD_MAX = 2;
function story(run, events, gates, utc) {
  const parts = [
    ...opening(run, events),
    ...takeovers(events, utc),
    ...refusals(events),
    ...approvals(events)
  ];
  if (!isEnded(run.state)) parts.push(...open(gates));
  else parts.push(...ending(run));
  return parts;
}
function opening(run, events) {
  const count = events.attempts.length;
  const attempts2 = count === 1 ? "with its first attempt" : `after ${count} attempts`;
  switch (run.state) {
    case "succeeded":
      return [plain(count === 0 ? "Succeeded, recorded once. " : `Succeeded ${attempts2}, recorded once. `)];
    case "failed":
      return [plain(`Failed ${attempts2}: `), ...error(run)];
    case "halted":
      return [plain("Halted, and what it recorded is kept: "), ...error(run)];
    case "cancelled":
      return [plain("Cancelled"), plain(run.cancelReason ? `: “${run.cancelReason}”. ` : ". ")];
    case "running": {
      const owner = events.attempts.at(-1)?.owner;
      return owner ? [plain("Running: "), strong(owner), plain(" holds the lease. ")] : [plain("Running. ")];
    }
    case "waiting":
      return [plain("Suspended: no worker and no process is held while it waits. ")];
    case "retry":
      return [plain("Between two attempts. ")];
    default:
      return [plain(count === 0 ? "No worker has had it yet. " : "")];
  }
}
function error(run) {
  if (!run.error) return [];
  return [strong(run.error.reason), plain(`, ${run.error.message}. `)];
}
function takeovers(events, utc) {
  const lost2 = events.attempts.filter((attempt) => attempt.outcome === "LOST");
  const parts = lost2.slice(0, TOLD_MAX).flatMap((attempt) => takeover(attempt, events, utc));
  if (lost2.length > TOLD_MAX) parts.push(plain(`${lost2.length - TOLD_MAX} more attempts were lost. `));
  return parts;
}
function takeover(attempt, events, utc) {
  const next2 = events.attempts.find((other) => other.n === attempt.n + 1);
  const silent = attempt.ended - attempt.lastBeat;
  const when = clockTime(attempt.lastBeat, attempt.lastBeat, utc, true).slice(0, -2);
  const parts = [
    plain("Worker "),
    strong(attempt.owner),
    plain(` went silent at ${when}; its lease ended ${span(silent)} later`)
  ];
  if (!next2) return [...parts, plain(". ")];
  const step = attempt.steps.at(-1);
  parts.push(plain(", and "), strong(next2.owner));
  if (!step) return [...parts, plain(" took over. ")];
  return [
    ...parts,
    plain(" went on after the recorded step "),
    code(step.key.replace(/#1$/, "")),
    plain(". ")
  ];
}
function refusals(events) {
  const [first, ...more] = events.refused;
  if (!first) return [];
  const attempt = events.attempts.find((other) => other.n === first.attempt);
  const parts = [
    plain(`The ${first.call} of `),
    strong(first.worker),
    plain(` ${late(first, attempt)}and was `),
    strong("refused", "refused")
  ];
  parts.push(plain(": nothing of it was recorded. "));
  if (more.length > 0)
    parts.push(plain(`${more.length} more ${more.length === 1 ? "call was" : "calls were"} refused. `));
  return parts;
}
function late(refused2, attempt) {
  if (!attempt?.ended || refused2.at <= attempt.ended) return "came ";
  return `came ${span(refused2.at - attempt.ended)} too late `;
}
function approvals(events) {
  return events.waits.filter((wait) => wait.kind === "approval" && wait.to !== void 0).flatMap(approval);
}
function approval(wait) {
  const name = wait.name.replace(/#1$/, "");
  const people = wait.votes.length === 1 ? "One person" : `${wait.votes.length} people`;
  if (wait.outcome === "APPROVED") return [plain(`${people} approved `), code(name), plain(". ")];
  if (wait.outcome === "REJECTED")
    return [strong("Rejected", "bad"), plain(" by a person: "), code(name), plain(". ")];
  return [plain("The approval "), code(name), plain(` ended as ${wait.outcome ?? "closed"}. `)];
}
function open(gates) {
  return gates.flatMap((gate) => {
    const parts = [plain(`${upper(gate.now)}. `)];
    if (gate.change) parts.push(plain("Next: "), ...marked(gate.change), plain(". "));
    return parts;
  });
}
function ending(run) {
  if (run.state !== "halted" && run.state !== "failed") return [];
  const steps = run.durable?.steps ?? 0;
  if (steps > 0)
    return [
      plain(`${steps} recorded ${steps === 1 ? "step is" : "steps are"} kept: `),
      strong("Continue"),
      plain(" goes on after them. ")
    ];
  return [strong("Retry"), plain(" submits it once more, as a new run.")];
}
function marked(text2) {
  return text2.split("`").map((piece, i4) => i4 % 2 === 1 ? code(piece) : plain(piece));
}
var upper = (text2) => text2.charAt(0).toUpperCase() + text2.slice(1);

// src/parts/actions.tsx
var WORDS = {
  cancel: "Cancel…",
  retry: "Retry…",
  continue: "Continue…",
  signal: "Send signal…",
  resume: "Resume…",
  again: "Run again…"
};
function possible(run) {
  if (!isEnded(run.state)) {
    const actions = ["cancel"];
    if (run.durable) actions.unshift("signal");
    if (run.durable?.waiting?.diverged) actions.unshift("resume");
    return actions;
  }
  const hasRecords = (run.durable?.steps ?? 0) > 0;
  if (run.state === "succeeded") return run.input !== void 0 && !run.parent ? ["again"] : [];
  return hasRecords ? ["continue", "retry"] : ["retry"];
}
function Actions({ run, again }) {
  const open2 = useSignal(void 0);
  const close2 = () => {
    open2.value = void 0;
  };
  const props = { run, close: close2, again };
  return /* @__PURE__ */ a4("span", { class: "actions", "data-actions": true, children: [
    possible(run).map((action, i4) => /* @__PURE__ */ a4(
      "button",
      {
        type: "button",
        class: `btn ${action === "cancel" ? "danger" : i4 === 0 && isEnded(run.state) ? "primary" : ""}`,
        onClick: () => {
          open2.value = action;
        },
        children: WORDS[action]
      },
      action
    )),
    open2.value === "cancel" && /* @__PURE__ */ a4(CancelDialog, { ...props }),
    open2.value === "retry" && /* @__PURE__ */ a4(RetryDialog, { ...props }),
    open2.value === "continue" && /* @__PURE__ */ a4(ContinueDialog, { ...props }),
    open2.value === "signal" && /* @__PURE__ */ a4(SignalDialog, { ...props }),
    open2.value === "resume" && /* @__PURE__ */ a4(ResumeDialog, { ...props }),
    open2.value === "again" && /* @__PURE__ */ a4(AgainDialog, { ...props })
  ] });
}
function Field({ id, label, children }) {
  return /* @__PURE__ */ a4("div", { class: "field", children: [
    /* @__PURE__ */ a4("label", { for: id, children: label }),
    children
  ] });
}
function CancelDialog({ run, close: close2, again }) {
  const reason = useSignal("");
  const isForced = useSignal(false);
  const children = run.durable?.liveChildren ?? 0;
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Cancel this run?",
      act: isForced.value ? "Revoke the lease now" : "Cancel the run",
      isDanger: true,
      close: close2,
      line: command(
        "runs",
        "cancel",
        run.runId,
        ...reason.value ? ["--reason", reason.value] : [],
        isForced.value && "--force"
      ),
      run: async () => {
        await post(`v1/runs/${run.runId}/cancel`, {
          reason: reason.value || void 0,
          force: isForced.value || void 0
        });
        await again();
      },
      children: [
        /* @__PURE__ */ a4("p", { children: [
          run.lease ? isForced.value ? /* @__PURE__ */ a4($, { children: [
            "The lease of ",
            /* @__PURE__ */ a4("b", { children: visible(run.lease.owner) }),
            " is revoked at once; its report will be refused. What its program does outside goes on until it notices."
          ] }) : /* @__PURE__ */ a4($, { children: [
            /* @__PURE__ */ a4("b", { children: visible(run.lease.owner) }),
            " is asked to stop and has",
            " ",
            Math.round((run.cancelGraceMs ?? 3e4) / 1e3),
            " s to clean up. Then the lease is revoked."
          ] }) : /* @__PURE__ */ a4($, { children: "No worker has it now, so it ends at once as cancelled." }),
          children > 0 && ` Its ${children} running children are cancelled too.`,
          " This cannot be undone; what was recorded stays."
        ] }),
        /* @__PURE__ */ a4(Field, { id: "reason", label: "Reason, which the worker is told", children: /* @__PURE__ */ a4(
          "input",
          {
            id: "reason",
            type: "text",
            maxLength: 200,
            value: reason.value,
            onInput: (event) => {
              reason.value = event.currentTarget.value;
            }
          }
        ) }),
        run.lease && /* @__PURE__ */ a4("label", { class: "tick-box", children: [
          /* @__PURE__ */ a4(
            "input",
            {
              type: "checkbox",
              checked: isForced.value,
              onChange: (event) => {
                isForced.value = event.currentTarget.checked;
              }
            }
          ),
          " ",
          "by force, without asking the worker"
        ] })
      ]
    }
  );
}
function RetryDialog({ run, close: close2 }) {
  const hasRecords = (run.durable?.steps ?? 0) > 0;
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Retry this run?",
      act: "Submit it once more",
      close: close2,
      line: command("runs", "retry", run.runId, hasRecords && "--from-scratch"),
      run: async (idempotencyKey) => {
        const made = await post(
          `v1/runs/${run.runId}/retry`,
          hasRecords ? { fromScratch: true } : {},
          { idempotencyKey }
        );
        go(`runs/${made.runId}`);
      },
      children: [
        /* @__PURE__ */ a4("p", { children: [
          "A ",
          /* @__PURE__ */ a4("b", { children: "new run" }),
          " of ",
          /* @__PURE__ */ a4("code", { children: visible(run.kind) }),
          " is submitted to ",
          /* @__PURE__ */ a4("code", { children: visible(run.queue) }),
          " ",
          "with the same input and settings. This one stays as it is, and names its successor."
        ] }),
        hasRecords && /* @__PURE__ */ a4("p", { class: "t-halt ink", children: [
          "It recorded ",
          run.durable.steps,
          " steps. A retry does all of them again; “Continue” goes on after them."
        ] })
      ]
    }
  );
}
function ContinueDialog({ run, close: close2 }) {
  const tokens = useSignal("");
  const limit = run.budget?.limits.tokens ?? void 0;
  const isExhausted = run.error?.reason === "BUDGET_EXHAUSTED";
  const isReady = tokens.value === "" ? !isExhausted || limit === void 0 : /^\d{1,15}$/.test(tokens.value);
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Continue this run?",
      act: "Continue as a new run",
      close: close2,
      isReady,
      line: command(
        "runs",
        "continue",
        run.runId,
        ...tokens.value ? ["--budget", `tokens=${tokens.value}`] : []
      ),
      run: async (idempotencyKey) => {
        const budget = tokens.value ? { tokens: Number(tokens.value) } : void 0;
        const made = await post(`v1/runs/${run.runId}/fork`, { budget }, { idempotencyKey });
        go(`runs/${made.runId}`);
      },
      children: [
        /* @__PURE__ */ a4("p", { children: [
          "A ",
          /* @__PURE__ */ a4("b", { children: "new run" }),
          " takes over the ",
          run.durable?.steps,
          " recorded steps and goes on after them. Nothing that was recorded is done again. This run stays as it is."
        ] }),
        limit !== void 0 && /* @__PURE__ */ a4(
          Field,
          {
            id: "tokens",
            label: `Tokens that it may use; the old limit was ${limit}${isExhausted ? ", and is used up" : ""}`,
            children: /* @__PURE__ */ a4(
              "input",
              {
                id: "tokens",
                type: "text",
                inputMode: "numeric",
                value: tokens.value,
                onInput: (event) => {
                  tokens.value = event.currentTarget.value.trim();
                }
              }
            )
          }
        )
      ]
    }
  );
}
function SignalDialog({ run, close: close2, again }) {
  const awaited2 = run.durable?.waiting?.wait?.for.find((item) => item.signal)?.signal ?? "";
  const name = useSignal(awaited2);
  const value = useSignal("null");
  const problem = invalid(value.value);
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Send a signal?",
      act: "Send it",
      close: close2,
      isReady: name.value !== "" && problem === void 0,
      line: command(
        "runs",
        "signal",
        run.runId,
        name.value || "NAME",
        ...value.value === "null" ? [] : ["--data", value.value]
      ),
      run: async (idempotencyKey) => {
        await post(
          `v1/runs/${run.runId}/signals`,
          { name: name.value, payload: JSON.parse(value.value) },
          { idempotencyKey }
        );
        await again();
      },
      children: [
        /* @__PURE__ */ a4("p", { children: "The value is recorded for this run and kept until the run takes it. It is taken once." }),
        /* @__PURE__ */ a4(Field, { id: "name", label: awaited2 ? `Name; the run waits for ${awaited2}` : "Name", children: /* @__PURE__ */ a4(
          "input",
          {
            id: "name",
            type: "text",
            maxLength: 128,
            value: name.value,
            onInput: (event) => {
              name.value = event.currentTarget.value.trim();
            }
          }
        ) }),
        /* @__PURE__ */ a4(Field, { id: "value", label: "Value, as JSON", children: /* @__PURE__ */ a4(
          "textarea",
          {
            id: "value",
            rows: 4,
            spellcheck: false,
            value: value.value,
            "aria-invalid": problem !== void 0,
            onInput: (event) => {
              value.value = event.currentTarget.value;
            }
          }
        ) }),
        problem && /* @__PURE__ */ a4("p", { class: "t-bad ink", role: "status", children: problem })
      ]
    }
  );
}
function ResumeDialog({ run, close: close2, again }) {
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Resume this run?",
      act: "Resume it",
      close: close2,
      line: command("runs", "resume", run.runId),
      run: async () => {
        await post(`v1/runs/${run.runId}/resume`, {});
        await again();
      },
      children: /* @__PURE__ */ a4("p", { children: "Its code did not match what it had recorded, so it stopped before doing anything. Resume it after code was deployed that matches; otherwise it stops again at the same place." })
    }
  );
}
function AgainDialog({ run, close: close2 }) {
  const input = useSignal(run.input ?? "null");
  const problem = invalid(input.value);
  return /* @__PURE__ */ a4(
    Dialog,
    {
      title: "Run it again?",
      act: "Submit a new run",
      close: close2,
      isReady: problem === void 0,
      line: command("submit", run.kind, "--queue", run.queue, "--input", input.value),
      run: async (idempotencyKey) => {
        const made = await post(
          "v1/runs",
          {
            kind: run.kind,
            queue: run.queue,
            input: JSON.parse(input.value),
            labels: run.labels,
            priority: run.priority
          },
          { idempotencyKey }
        );
        go(`runs/${made.runId}`);
      },
      children: [
        /* @__PURE__ */ a4("p", { children: [
          "A ",
          /* @__PURE__ */ a4("b", { children: "new run" }),
          " of ",
          /* @__PURE__ */ a4("code", { children: visible(run.kind) }),
          " is submitted to ",
          /* @__PURE__ */ a4("code", { children: visible(run.queue) }),
          " ",
          "with this input and the same labels. It does its work again, outside too."
        ] }),
        /* @__PURE__ */ a4(Field, { id: "input", label: "Input, as JSON", children: /* @__PURE__ */ a4(
          "textarea",
          {
            id: "input",
            rows: 8,
            spellcheck: false,
            value: input.value,
            "aria-invalid": problem !== void 0,
            onInput: (event) => {
              input.value = event.currentTarget.value;
            }
          }
        ) }),
        problem && /* @__PURE__ */ a4("p", { class: "t-bad ink", role: "status", children: problem })
      ]
    }
  );
}
function invalid(text2) {
  try {
    JSON.parse(text2);
  } catch (error2) {
    return error2 instanceof Error ? error2.message : "this is no JSON";
  }
  const integers = text2.replaceAll(/"(?:[^"\\]|\\.)*"/g, "").match(/\d{16,}/g) ?? [];
  if (integers.some((digits) => !Number.isSafeInteger(Number(digits))))
    return "a number beyond 2^53 would be rounded here: use the command line";
  return void 0;
}

// src/parts/sentence.tsx
function Sentence({ parts }) {
  return /* @__PURE__ */ a4($, { children: parts.map((part, i4) => {
    const words2 = visible(part.text);
    if (part.style === "code") return /* @__PURE__ */ a4("code", { children: words2 }, i4);
    if (part.style === "strong")
      return /* @__PURE__ */ a4("b", { class: part.tone ? `t-${part.tone} ink` : "", children: words2 }, i4);
    return /* @__PURE__ */ a4("span", { children: words2 }, i4);
  }) });
}

// src/pages/run-tabs.tsx
function StepsTab({ steps }) {
  if (steps.length === 0) {
    return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Empty, { title: "No recorded steps", children: "A durable function records what it has done. This run is not one, or has recorded nothing yet." }) });
  }
  return /* @__PURE__ */ a4(Card, { title: "Steps", note: "what the run has recorded; a new attempt replays it instead of doing it again", children: /* @__PURE__ */ a4("table", { children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { class: "r", children: "number" }),
      /* @__PURE__ */ a4("th", { children: "key" }),
      /* @__PURE__ */ a4("th", { children: "outcome" }),
      /* @__PURE__ */ a4("th", { children: "attempt" }),
      /* @__PURE__ */ a4("th", { children: "recorded" }),
      /* @__PURE__ */ a4("th", { children: "spent" }),
      /* @__PURE__ */ a4("th", { children: "result" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: steps.map((step) => /* @__PURE__ */ a4(StepRow, { step }, step.number)) })
  ] }) });
}
function StepRow({ step }) {
  const isOpen = useSignal(false);
  const spend = step.spend ? [
    step.spend.tokens && `${step.spend.tokens} tokens`,
    step.spend.toolCalls && `${step.spend.toolCalls} calls`
  ].filter(Boolean).join(", ") : "";
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("td", { class: "num r", children: step.number }),
      /* @__PURE__ */ a4("td", { class: "strong", children: visible(step.key) }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Mark, { look: outcomeLook(step.outcome === "STARTED" ? void 0 : step.outcome) }) }),
      /* @__PURE__ */ a4("td", { class: "num", children: step.attempt ?? "–" }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: step.recordedAt }) }),
      /* @__PURE__ */ a4("td", { class: "muted", children: spend }),
      /* @__PURE__ */ a4("td", { class: "wide-cell", children: [
        step.error && /* @__PURE__ */ a4("span", { class: "t-bad ink", children: visible(step.error.message) }),
        step.result !== void 0 && /* @__PURE__ */ a4(
          "button",
          {
            type: "button",
            class: "link mono clip",
            "aria-expanded": isOpen.value,
            onClick: () => {
              isOpen.value = !isOpen.value;
            },
            children: [
              visible(step.result.slice(0, 90)),
              step.result.length > 90 ? "…" : ""
            ]
          }
        )
      ] })
    ] }),
    isOpen.value && step.result !== void 0 && /* @__PURE__ */ a4("tr", { children: /* @__PURE__ */ a4("td", { colSpan: 7, children: /* @__PURE__ */ a4(PayloadView, { text: step.result, label: `result of ${step.key}` }) }) })
  ] });
}
function PayloadsTab({ run }) {
  return /* @__PURE__ */ a4("div", { class: "two", children: [
    /* @__PURE__ */ a4(Card, { title: "Input", note: run.input === void 0 ? "" : "as it was submitted", children: run.input === void 0 ? /* @__PURE__ */ a4("p", { class: "pad-x muted", children: run.plan ? "The steps of the plan have inputs of their own." : "None." }) : /* @__PURE__ */ a4(PayloadView, { text: run.input, label: "input" }) }),
    /* @__PURE__ */ a4(Card, { title: "Output", note: run.output === void 0 ? "" : "as it was reported", children: run.output === void 0 ? /* @__PURE__ */ a4("p", { class: "pad-x muted", children: run.completedAt ? "None." : "The run has not ended." }) : /* @__PURE__ */ a4(PayloadView, { text: run.output, label: "output" }) }),
    run.error && /* @__PURE__ */ a4(
      Card,
      {
        title: /* @__PURE__ */ a4("span", { class: "t-bad ink", children: visible(run.error.reason) }),
        note: run.error.category ?? "",
        class: "whole",
        children: [
          /* @__PURE__ */ a4("p", { class: "pad-x", children: visible(run.error.message) }),
          run.error.stackTrace && /* @__PURE__ */ a4("pre", { class: "pad-x stack", children: visible(run.error.stackTrace) })
        ]
      }
    )
  ] });
}
function EffectsTab2({ effects, run }) {
  if (effects.length === 0) {
    return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Empty, { title: "No effects", children: [
      "An effect is a call to another system that is decided with a step and delivered until it arrived.",
      " ",
      visible(run.kind),
      " has declared none."
    ] }) });
  }
  return /* @__PURE__ */ a4(Card, { title: "Effects", note: "decided with the run's records, delivered in order", children: /* @__PURE__ */ a4("table", { children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "state" }),
      /* @__PURE__ */ a4("th", { children: "type" }),
      /* @__PURE__ */ a4("th", { children: "endpoint" }),
      /* @__PURE__ */ a4("th", { class: "r", children: "tries" }),
      /* @__PURE__ */ a4("th", { children: "decided" }),
      /* @__PURE__ */ a4("th", { children: "settled" }),
      /* @__PURE__ */ a4("th", { children: "last answer" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: effects.map((effect) => /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Mark, { look: effectLook(effect.state) }) }),
      /* @__PURE__ */ a4("td", { class: "strong", children: visible(effect.type) }),
      /* @__PURE__ */ a4("td", { children: visible(effect.endpoint) }),
      /* @__PURE__ */ a4("td", { class: "num r", children: effect.tries }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: effect.decidedAt }) }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: effect.settledAt }) }),
      /* @__PURE__ */ a4("td", { class: "wide-cell", children: [
        effect.lastTry?.status ?? "",
        " ",
        visible(effect.lastTry?.note ?? "")
      ] })
    ] }, effect.effectId)) })
  ] }) });
}
function ChildrenTab({ run }) {
  const query = useQuery(
    `children ${run.runId}`,
    "run",
    (signal) => get(`v1/runs/${run.runId}/children`, { query: { limit: 200 }, signal })
  );
  const list = query.data.value;
  if (!list)
    return query.problem.value ? /* @__PURE__ */ a4(Failed, { problem: query.problem.value, again: query.again }) : /* @__PURE__ */ a4(Loading, {});
  if (list.children.length === 0)
    return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Empty, { title: "No children", children: "This run has started no other tasks." }) });
  return /* @__PURE__ */ a4(Card, { title: "Children", note: "tasks that the run has started, in order", children: /* @__PURE__ */ a4("table", { children: [
    /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "state" }),
      /* @__PURE__ */ a4("th", { children: "key" }),
      /* @__PURE__ */ a4("th", { children: "kind" }),
      /* @__PURE__ */ a4("th", { children: "queue" }),
      /* @__PURE__ */ a4("th", { children: "started" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: list.children.map((child) => /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Mark, { look: stateLook(child.state) }) }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("a", { "data-row": true, href: `runs/${runIdOf(child.taskId)}`, children: visible(child.key) }) }),
      /* @__PURE__ */ a4("td", { children: visible(child.kind) }),
      /* @__PURE__ */ a4("td", { children: visible(child.queue) }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: child.startedAt }) })
    ] }, child.taskId)) })
  ] }) });
}
function RecordTab({ run }) {
  const query = useQuery(
    `record ${run.runId}`,
    void 0,
    (signal) => get(`v1/runs/${run.runId}/record`, { query: { limit: 200 }, signal })
  );
  const record = query.data.value;
  if (!record)
    return query.problem.value ? /* @__PURE__ */ a4(Failed, { problem: query.problem.value, again: query.again }) : /* @__PURE__ */ a4(Loading, { rows: 8 });
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(
      Card,
      {
        title: "Record",
        note: "what is sealed about this run, and what this browser computed again from the payloads it shows",
        children: /* @__PURE__ */ a4("dl", { class: "kv pad-b", children: [
          /* @__PURE__ */ a4(
            Check,
            {
              name: "input",
              claimed: record.inputDigest,
              text: run.plan ? void 0 : run.input,
              because: run.plan ? "the run has a plan: its digest covers the steps" : "the input is not here any more"
            }
          ),
          record.outputDigest && /* @__PURE__ */ a4(
            Check,
            {
              name: "output",
              claimed: record.outputDigest,
              text: run.output,
              because: "the output is not here any more"
            }
          ),
          /* @__PURE__ */ a4("div", { children: [
            /* @__PURE__ */ a4("dt", { children: "record" }),
            /* @__PURE__ */ a4("dd", { children: [
              /* @__PURE__ */ a4(Digest, { value: record.digest }),
              " ",
              /* @__PURE__ */ a4("span", { class: "muted", children: [
                "over ",
                record.decisions ?? "all",
                " decisions; ",
                /* @__PURE__ */ a4("code", { children: [
                  "tenure prove ",
                  run.runId
                ] }),
                " checks the chain and its seal"
              ] })
            ] })
          ] }),
          /* @__PURE__ */ a4("div", { children: [
            /* @__PURE__ */ a4("dt", { children: "took" }),
            /* @__PURE__ */ a4("dd", { children: span(record.durationMs) })
          ] })
        ] })
      }
    ),
    /* @__PURE__ */ a4(Card, { title: "Attempts", note: "as they are sealed", children: /* @__PURE__ */ a4("table", { tabIndex: 0, children: [
      /* @__PURE__ */ a4("thead", { children: /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("th", { class: "r", children: "attempt" }),
        /* @__PURE__ */ a4("th", { children: "outcome" }),
        /* @__PURE__ */ a4("th", { children: "owner" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "fence" }),
        /* @__PURE__ */ a4("th", { children: "granted" }),
        /* @__PURE__ */ a4("th", { class: "r", children: "held for" }),
        /* @__PURE__ */ a4("th", { children: "reason" }),
        /* @__PURE__ */ a4("th", { children: "report" })
      ] }) }),
      /* @__PURE__ */ a4("tbody", { children: record.attempts.map((attempt) => /* @__PURE__ */ a4("tr", { children: [
        /* @__PURE__ */ a4("td", { class: "num r", children: attempt.attempt }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Mark, { look: outcomeLook(attempt.outcome) }) }),
        /* @__PURE__ */ a4("td", { children: visible(attempt.owner) }),
        /* @__PURE__ */ a4("td", { class: "num r", title: String(attempt.fence), children: fence(attempt.fence) }),
        /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(Time, { at: attempt.grantedAt }) }),
        /* @__PURE__ */ a4("td", { class: "num r", children: span(ms(attempt.endedAt) - ms(attempt.grantedAt)) }),
        /* @__PURE__ */ a4("td", { class: "muted", children: attempt.reason ?? "" }),
        /* @__PURE__ */ a4("td", { children: attempt.reportDigest ? /* @__PURE__ */ a4(Digest, { value: attempt.reportDigest, short: true }) : /* @__PURE__ */ a4("span", { class: "muted", children: "none" }) })
      ] }, attempt.attempt)) })
    ] }) })
  ] });
}
function Check({
  name,
  claimed,
  text: text2,
  because
}) {
  const computed = text2 === void 0 ? void 0 : payloadDigest(text2);
  const isSame = computed === claimed;
  return /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { children: [
      /* @__PURE__ */ a4(Digest, { value: claimed }),
      " ",
      computed === void 0 && /* @__PURE__ */ a4("span", { class: "muted", children: [
        "not computed here: ",
        because
      ] }),
      computed !== void 0 && isSame && /* @__PURE__ */ a4("span", { class: "t-ok ink check", children: [
        /* @__PURE__ */ a4(Glyph, { name: "ok" }),
        " computed here, the same"
      ] }),
      computed !== void 0 && !isSame && /* @__PURE__ */ a4("strong", { class: "t-bad ink check", role: "alert", children: [
        /* @__PURE__ */ a4(Glyph, { name: "bad" }),
        " the payload that is shown has another digest: ",
        /* @__PURE__ */ a4(Digest, { value: computed })
      ] })
    ] })
  ] });
}
function RawTab({ run }) {
  return /* @__PURE__ */ a4(Card, { title: "Raw", note: "the answer of the server; payloads as text", children: /* @__PURE__ */ a4(PayloadView, { text: JSON.stringify(run), label: "run" }) });
}

// src/timeline/scale.ts
var FOLD_PX = 92;
var FOLD_SHARE = 0.15;
var FOLD_LEAST_MS = 1e3;
var MARGIN_PX = 44;
var TICK_PX = 84;
var FOLDS_MAX = 4;
function scale(from, to, busy, points, { left: left2, right, isTrue = false }) {
  const whole = Math.max(1, to - from);
  const gaps = isTrue ? [] : idleGaps(from, to, busy, points, whole);
  const folds = placed(gaps, from, to, left2, right);
  const x3 = projection(from, to, folds, left2, right);
  const set = folds.map(([a5, b3]) => ({ from: a5, to: b3, x0: x3(a5), x1: x3(b3) }));
  return { x: x3, folds: set, ticks: ticks(from, to, set, x3) };
}
function idleGaps(from, to, busy, points, whole) {
  const instants = [from, to, ...busy.flat(), ...points].filter((t4) => t4 >= from && t4 <= to).sort((a5, b3) => a5 - b3);
  const gaps = [];
  for (let i4 = 1; i4 < instants.length; i4++) {
    const [a5, b3] = [instants[i4 - 1], instants[i4]];
    const isIdle = !busy.some(([f5, t4]) => f5 < b3 && t4 > a5);
    if (isIdle && b3 - a5 > Math.max(FOLD_SHARE * whole, FOLD_LEAST_MS)) gaps.push([a5, b3]);
  }
  return gaps.sort(([a5, b3], [c4, d4]) => d4 - c4 - (b3 - a5)).slice(0, FOLDS_MAX).sort(([a5], [c4]) => a5 - c4);
}
function placed(gaps, from, to, left2, right) {
  const pixels = right - left2 - FOLD_PX * gaps.length;
  const margins = 2 * MARGIN_PX * gaps.length;
  const linear = to - from - gaps.reduce((sum, [a5, b3]) => sum + b3 - a5, 0);
  const perPixel = Math.max(linear, (to - from) * 1e-4) / Math.max(pixels - margins, pixels / 3);
  const margin = MARGIN_PX * perPixel;
  return gaps.map(([a5, b3]) => {
    const cut3 = Math.min(margin, (b3 - a5) * 0.2);
    return [a5 + cut3, b3 - cut3];
  });
}
function projection(from, to, folds, left2, right) {
  const linear = to - from - folds.reduce((sum, [a5, b3]) => sum + b3 - a5, 0);
  const foldPx = Math.min(FOLD_PX, (right - left2) / (2 * Math.max(1, folds.length)));
  const perMs = (right - left2 - foldPx * folds.length) / Math.max(1e-9, linear);
  return (time) => {
    const t4 = Math.min(Math.max(time, from), to);
    let px = left2;
    let at = from;
    for (const [a5, b3] of folds) {
      if (t4 <= a5) break;
      px += (a5 - at) * perMs;
      if (t4 < b3) return Math.min(right, px + foldPx * (t4 - a5) / (b3 - a5));
      px += foldPx;
      at = b3;
    }
    return Math.min(right, px + (t4 - at) * perMs);
  };
}
var NICE = [1, 2, 5, 10, 20, 50, 100, 200, 500];
var STEPS = [
  ...NICE,
  ...[1, 2, 5, 10, 15, 30].map((s4) => s4 * 1e3),
  ...[1, 2, 5, 10, 15, 30].map((m5) => m5 * 6e4),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 720].map((h5) => h5 * 36e5)
];
function ticks(from, to, folds, x3) {
  const edges = [from, ...folds.flatMap((fold) => [fold.from, fold.to]), to];
  const found = [];
  for (let i4 = 0; i4 < edges.length; i4 += 2) {
    const [a5, b3] = [edges[i4], edges[i4 + 1]];
    const width = x3(b3) - x3(a5);
    if (b3 <= a5 || width < 8) continue;
    const step = STEPS.find((step2) => width * step2 / (b3 - a5) >= TICK_PX) ?? STEPS.at(-1);
    let first = from + Math.ceil((a5 - from) / step) * step;
    if (first > b3) first = (a5 + b3) / 2;
    for (let t4 = first; t4 <= b3; t4 += step) found.push({ at: t4 - from, x: x3(t4), step });
  }
  const isFree = (tick, i4, all) => !folds.some((fold) => tick.x > fold.x0 - 34 && tick.x < fold.x1 + 34) && (i4 === 0 || tick.x - all[i4 - 1].x >= TICK_PX * 0.7);
  return found.filter(isFree);
}

// src/timeline/layout.ts
var shortKey = (keyId) => keyId.slice(0, 8);
var NAME_MAX = 14;
var GUTTER = 176;
var TAIL = 150;
var LANES_MAX = 20;
var LETTER = 6.1;
var NAMES_MAX = 40;
function layout(events, { width, isTrue, ...words2 }) {
  const attempts2 = events.attempts.slice(-LANES_MAX);
  const waits = events.waits.slice(0, LANES_MAX);
  const children = events.children.slice(0, LANES_MAX);
  const effects = events.effects.slice(0, LANES_MAX);
  const hidden = events.attempts.length + events.waits.length + events.children.length + events.effects.length - (attempts2.length + waits.length + children.length + effects.length);
  const axis2 = scaleOf(events, Math.max(width, GUTTER + TAIL + 120), isTrue ?? false);
  const drawer = new Drawer(events, axis2);
  for (const attempt of attempts2) drawer.attempt(attempt);
  drawer.takeovers(attempts2);
  drawer.refusals(attempts2);
  for (const wait of waits) drawer.wait(wait, attempts2, words2);
  for (const child of children) drawer.child(child, attempts2);
  for (const effect of effects) drawer.effect(effect, attempts2);
  for (const lane of drawer.lanes)
    lane.labels = withoutCollisions(lane, Math.max(width, GUTTER + TAIL + 120));
  return {
    width,
    left: GUTTER,
    lanes: drawer.lanes,
    links: drawer.links,
    folds: axis2.folds,
    ticks: axis2.ticks,
    hidden
  };
}
function scaleOf(events, width, isTrue) {
  const busy = [
    ...events.attempts.map((a5) => [a5.granted, a5.ended ?? events.to]),
    ...events.children.map((c4) => [c4.from, c4.to ?? events.to]),
    ...events.effects.filter((e4) => e4.tries.length > 0).map((e4) => [e4.tries[0].at, e4.tries.at(-1).at])
  ];
  const points = [
    ...events.refused.map((r4) => r4.at),
    ...events.signals.map((s4) => s4.at),
    ...events.waits.flatMap((w5) => [
      w5.from,
      ...w5.to === void 0 ? [] : [w5.to],
      ...w5.votes.map((v4) => v4.at)
    ]),
    ...events.effects.flatMap((e4) => e4.tries.map((t4) => t4.at))
  ];
  const last = Math.max(events.to, ...busy.map(([, t4]) => t4), ...points);
  return scale(events.from, last, busy, points, { left: GUTTER + 10, right: width - TAIL, isTrue });
}
var seconds = (from, to) => span(Math.max(0, to - from));
var shortStep = (key2) => key2.replace(/#1$/, "");
var Drawer = class {
  constructor(events, axis2) {
    this.events = events;
    this.axis = axis2;
  }
  events;
  axis;
  lanes = [];
  links = [];
  attempt(attempt) {
    const { x: x3 } = this.axis;
    const { events } = this;
    const look2 = outcomeLook(attempt.outcome);
    const end2 = attempt.ended ?? events.to;
    const isLost = attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED";
    const isSilent = attempt.ended === void 0 && attempt.expires < events.to;
    const alive = isLost ? Math.min(attempt.lastBeat, end2) : isSilent ? Math.min(attempt.lastBeat, end2) : end2;
    const start = Math.min(attempt.started ?? attempt.granted, alive);
    const lane = this.lane(`attempt-${attempt.n}`, `${attempt.n}  ${attempt.owner}`, look2.word, look2);
    const note = reasonNote(attempt);
    if (note) lane.note = note;
    lane.marks.push({
      x: x3(attempt.granted),
      glyph: "grant",
      tone: "run",
      title: `lease granted to ${attempt.owner}`
    });
    if (start > attempt.granted) lane.bars.push(bar(x3(attempt.granted), x3(start), "granted", "run"));
    lane.bars.push({
      ...bar(x3(start), Math.max(x3(alive), x3(start) + 3), "work", "run"),
      isOpen: attempt.ended === void 0 && !isSilent
    });
    if (isLost || isSilent) {
      const from = Math.max(x3(alive), x3(start) + 3);
      lane.bars.push(bar(from, Math.max(x3(end2), from + 2), "silence", "retry"));
      lane.labels.push({
        x: (from + x3(end2)) / 2,
        text: `${seconds(alive, end2)} silent`,
        anchor: "middle",
        row: "above",
        tone: "retry",
        isStrong: true,
        rank: 6
      });
    }
    const leaseEnd = attempt.ended === void 0 ? Math.min(attempt.expires, events.to) : end2;
    lane.bars.push(bar(x3(attempt.granted), Math.max(x3(leaseEnd), x3(attempt.granted) + 3), "lease", "queue"));
    if (attempt.lastBeat > attempt.granted) {
      lane.marks.push({
        x: x3(attempt.lastBeat),
        glyph: "beat",
        tone: "queue",
        title: "last renewal of the lease"
      });
    }
    for (const step of attempt.steps) {
      lane.marks.push({
        x: x3(step.at),
        glyph: "step",
        tone: step.isFailed ? "bad" : "run",
        id: `entry-${step.n}`,
        title: `${step.key} recorded`
      });
      if (attempt.steps.length <= NAMES_MAX) {
        lane.labels.push({
          x: x3(step.at),
          text: shortStep(step.key),
          anchor: "middle",
          row: "above",
          rank: 1
        });
      }
    }
    lane.marks.push(this.closing(attempt, look2, end2));
  }
  closing(attempt, look2, end2) {
    const x3 = this.axis.x(end2);
    const id = `attempt-${attempt.n}`;
    const title = `attempt ${attempt.n} of ${attempt.owner}: ${look2.word}`;
    if (attempt.ended === void 0) return { x: x3, glyph: "run", tone: "run", id, title };
    if (attempt.outcome === "LOST" || attempt.outcome === "UNDELIVERED")
      return { x: x3, glyph: "expiry", tone: "retry", id, title };
    if (attempt.outcome === "SUSPENDED") return { x: x3, glyph: "stop", tone: "wait", id, title };
    return { x: x3, glyph: look2.glyph, tone: look2.tone, id, title };
  }
  takeovers(attempts2) {
    for (let i4 = 1; i4 < attempts2.length; i4++) {
      const [before, after] = [attempts2[i4 - 1], attempts2[i4]];
      const isTakeover = before.outcome === "LOST" || before.outcome === "UNDELIVERED";
      if (!isTakeover || before.ended === void 0) continue;
      const toX = this.axis.x(after.granted);
      this.links.push({
        style: "takeover",
        fromLane: i4 - 1,
        fromX: this.axis.x(before.ended),
        toLane: i4,
        toX
      });
      const isOther = after.owner !== before.owner;
      const lane = this.lanes[i4];
      const words2 = isOther ? `${after.owner} takes over` : `${after.owner} again`;
      lane.labels.push({
        x: toX - 22,
        text: words2,
        anchor: "end",
        row: "level",
        tone: "retry",
        isStrong: true,
        rank: 8
      });
      lane.labels.push({
        x: toX - 22,
        text: `fence ${fence(before.fence)} → ${fence(after.fence)}`,
        anchor: "end",
        row: "below",
        rank: 5
      });
    }
  }
  refusals(attempts2) {
    this.events.refused.forEach((refused2, i4) => {
      const at = attempts2.findIndex((attempt2) => attempt2.n === refused2.attempt);
      const attempt = attempts2[at];
      if (!attempt) return;
      const lane = this.lanes[at];
      const start = this.axis.x(attempt.ended ?? refused2.at) + 3;
      const x3 = Math.max(this.axis.x(refused2.at), start + 36 + 34 * earlier(this.events, i4));
      lane.bars.push(bar(start, x3 - 15, "late", "refused"));
      lane.marks.push({
        x: x3,
        glyph: "refused",
        tone: "refused",
        id: `refused-${i4}`,
        title: `late ${refused2.call} refused: ${refused2.error}`
      });
      lane.labels.push({
        x: x3 + 21,
        text: `late ${refused2.call} refused`,
        anchor: "start",
        row: "level",
        tone: "refused",
        isStrong: true,
        rank: 9
      });
      lane.labels.push({ x: x3 + 21, text: refused2.error, anchor: "start", row: "below", rank: 4 });
    });
  }
  wait(wait, attempts2, { approvalTitle, nameOf: nameOf2 = shortKey }) {
    const { x: x3 } = this.axis;
    const end2 = wait.to ?? this.events.to;
    const title = {
      approval: "Approval",
      signal: "Signal",
      sleep: "Sleep",
      child: "Children",
      other: "Wait"
    }[wait.kind];
    const look2 = waitLook(wait);
    const isNamed = wait.kind !== "sleep";
    const lane = this.lane(
      `wait-${wait.entry}`,
      title,
      isNamed ? wait.name.replace(/#1$/, "") : look2.word,
      look2
    );
    const subject = wait.approval === void 0 ? void 0 : approvalTitle?.(wait.approval);
    const words2 = subject ?? (wait.kind === "sleep" ? seconds(wait.from, end2) : wait.to === void 0 ? `open since ${seconds(wait.from, end2)}` : void 0);
    const free = x3(wait.votes[0]?.at ?? end2) - x3(wait.from) - 26;
    const fits = words2 !== void 0 && words2.length * LETTER * 1.06 <= free;
    lane.bars.push({
      ...bar(x3(wait.from), Math.max(x3(end2), x3(wait.from) + 6), "wait", "wait"),
      isOpen: wait.to === void 0,
      text: fits ? words2 : void 0
    });
    if (words2 !== void 0 && !fits && wait.kind === "approval") lane.note = words2;
    for (const vote of wait.votes) {
      const [glyph, tone] = vote.isApproval ? ["ok", "ok"] : ["bad", "bad"];
      lane.marks.push({
        x: x3(vote.at),
        glyph,
        tone,
        id: `entry-${vote.n}`,
        title: `${vote.isApproval ? "approved" : "rejected"} by ${nameOf2(vote.by)}`
      });
      lane.labels.push({
        x: x3(vote.at),
        text: nameOf2(vote.by).slice(0, NAME_MAX),
        anchor: "middle",
        row: "above",
        rank: 2
      });
    }
    for (const signal of this.events.signals.filter(
      (s4) => wait.kind === "signal" && s4.at >= wait.from && s4.at <= end2
    )) {
      lane.marks.push({
        x: x3(signal.at),
        glyph: "step",
        tone: "wait",
        id: `entry-${signal.n}`,
        title: `signal ${signal.name}`
      });
    }
    const next2 = attempts2.findIndex((attempt) => wait.to !== void 0 && attempt.granted >= wait.to);
    if (next2 >= 0)
      this.links.push({
        style: "resume",
        fromLane: this.lanes.length - 1,
        fromX: x3(end2),
        toLane: next2,
        toX: x3(attempts2[next2].granted)
      });
    if (wait.votes.length === 0 && wait.to !== void 0)
      lane.marks.push({
        x: x3(end2),
        glyph: look2.glyph,
        tone: look2.tone,
        id: `entry-${wait.entry}`,
        title: look2.word
      });
  }
  child(child, attempts2) {
    const { x: x3 } = this.axis;
    const end2 = child.to ?? this.events.to;
    const look2 = stateLook(child.state ?? "running");
    const lane = this.lane(`child-${child.entry}`, child.key.replace(/#1$/, ""), `child, ${look2.word}`, look2);
    if (child.taskId) lane.href = `runs/${child.taskId.replace(/^task_/, "run_")}`;
    lane.bars.push({
      ...bar(x3(child.from), Math.max(x3(end2), x3(child.from) + 3), "work", "run"),
      isOpen: child.to === void 0
    });
    lane.marks.push({
      x: x3(end2),
      glyph: look2.glyph,
      tone: look2.tone,
      id: `entry-${child.entry}`,
      title: `child ${child.key}: ${look2.word}`
    });
    this.cause(child.from, attempts2, x3(child.from));
  }
  effect(effect, attempts2) {
    const { x: x3 } = this.axis;
    const look2 = effectLook(effect.state);
    const lane = this.lane(`effect-${effect.id}`, effect.type, `effect to ${effect.endpoint}`, look2);
    const first = effect.tries[0]?.at ?? effect.from;
    const last = effect.tries.at(-1)?.at ?? this.events.to;
    if (effect.tries.length > 1) lane.bars.push(bar(x3(first), x3(last), "backoff", "queue"));
    for (const attempt of effect.tries) {
      const isDone = attempt.isLast && effect.state === "delivered";
      lane.marks.push({
        x: x3(attempt.at),
        glyph: isDone ? "ok" : "bad",
        tone: isDone ? "ok" : "bad",
        id: `effect-${effect.id}`,
        title: `try of ${effect.type}: ${attempt.status ?? "no answer"}`
      });
      lane.labels.push({
        x: x3(attempt.at),
        text: String(attempt.status ?? "–"),
        anchor: "middle",
        row: "above",
        tone: isDone ? "ok" : "bad",
        rank: 3
      });
    }
    if (effect.tries.length === 0)
      lane.marks.push({
        x: x3(effect.from),
        glyph: look2.glyph,
        tone: look2.tone,
        id: `effect-${effect.id}`,
        title: `${effect.type}: ${look2.word}`
      });
    this.cause(effect.from, attempts2, x3(first));
  }
  /** A grey line from the attempt that worked at an instant to the lane that was added last. */
  cause(at, attempts2, toX) {
    const index = attempts2.findIndex(
      (attempt) => attempt.granted <= at && (attempt.ended ?? Number.POSITIVE_INFINITY) >= at
    );
    if (index >= 0)
      this.links.push({
        style: "cause",
        fromLane: index,
        fromX: this.axis.x(at),
        toLane: this.lanes.length - 1,
        toX
      });
  }
  lane(id, title, note, look2) {
    const lane = { id, title, note, look: look2, bars: [], marks: [], labels: [] };
    this.lanes.push(lane);
    return lane;
  }
};
var bar = (x0, x1, style, tone) => ({
  x0,
  x1: Math.max(x0, x1),
  style,
  tone
});
function earlier(events, i4) {
  return events.refused.slice(0, i4).filter((other) => other.attempt === events.refused[i4].attempt).length;
}
function reasonNote(attempt) {
  if (attempt.outcome === "FAILED" && attempt.message) return attempt.message;
  if (attempt.outcome === "REVOKED" && attempt.reason)
    return attempt.reason.toLowerCase().replaceAll("_", " ");
  return void 0;
}
function waitLook(wait) {
  if (wait.to === void 0) return { tone: "wait", glyph: "wait", word: "open" };
  if (wait.outcome === "REJECTED") return { tone: "bad", glyph: "bad", word: "rejected" };
  if (wait.outcome === "EXPIRED") return { tone: "halt", glyph: "halt", word: "expired" };
  if (wait.outcome === "WITHDRAWN") return { tone: "queue", glyph: "cancel", word: "withdrawn" };
  return { tone: "ok", glyph: "ok", word: wait.kind === "approval" ? "approved" : "over" };
}
function extent(label) {
  const width = label.text.length * (label.isStrong ? LETTER * 1.06 : LETTER);
  if (label.anchor === "start") return [label.x, label.x + width];
  if (label.anchor === "end") return [label.x - width, label.x];
  return [label.x - width / 2, label.x + width / 2];
}
function withoutCollisions(lane, width) {
  const kept = [];
  const byRank = [...lane.labels].sort((a5, b3) => b3.rank - a5.rank || a5.x - b3.x);
  for (const label of byRank) {
    const [a5, b3] = extent(label);
    const isInside = a5 >= GUTTER - 4 && b3 <= width;
    const isFree = kept.every((other) => {
      const [c4, d4] = extent(other);
      return other.row !== label.row || b3 + 4 <= c4 || a5 >= d4 + 4;
    });
    const bars = lane.bars.filter((bar2) => bar2.style !== "lease" && bar2.style !== "late");
    const covers = label.row === "level" && bars.some((bar2) => a5 < bar2.x1 + 2 && b3 > bar2.x0 - 2);
    if (isInside && isFree && !covers) kept.push(label);
  }
  return kept;
}

// src/timeline/render.tsx
var AXIS = 30;
var LANE = 46;
var WIDTH_MIN = 760;
var laneY = (i4) => AXIS + i4 * LANE + 22;
function Timeline({ events, isTrue, selected, choose, approvalTitle, nameOf: nameOf2 }) {
  const box = T2(null);
  const width = useSignal(1100);
  A2(() => {
    const measure = () => {
      width.value = Math.max(WIDTH_MIN, box.current?.clientWidth ?? 1100);
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const drawing = layout(events, { width: width.value, isTrue, approvalTitle, nameOf: nameOf2 });
  const height = AXIS + drawing.lanes.length * LANE + 6;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    /* @__PURE__ */ a4("section", { class: "timeline", ref: box, tabIndex: 0, "aria-label": "Timeline", children: [
      /* @__PURE__ */ a4(
        "svg",
        {
          width: drawing.width,
          height,
          viewBox: `0 0 ${drawing.width} ${height}`,
          role: "group",
          "aria-label": summary(events),
          children: [
            /* @__PURE__ */ a4(Patterns, {}),
            /* @__PURE__ */ a4(Grid, { drawing, height }),
            drawing.links.map((link, i4) => link.style === "cause" ? /* @__PURE__ */ a4(LinkView, { link }, i4) : null),
            drawing.lanes.map((lane, i4) => /* @__PURE__ */ a4(LaneView, { lane, y: laneY(i4), selected, choose }, lane.id)),
            drawing.links.map((link, i4) => link.style === "cause" ? null : /* @__PURE__ */ a4(LinkView, { link }, i4))
          ]
        }
      ),
      drawing.hidden > 0 && /* @__PURE__ */ a4("p", { class: "muted", children: [
        drawing.hidden,
        " more lanes are not drawn; the history has all of them."
      ] })
    ] })
  );
}
function summary(events) {
  const lost2 = events.attempts.filter((attempt) => attempt.outcome === "LOST").length;
  const parts = [
    `${events.attempts.length} attempts`,
    `${lost2} lost`,
    `${events.refused.length} refused reports`,
    `${events.waits.length} waits`
  ];
  return `Timeline: ${parts.join(", ")}`;
}
function Patterns() {
  return /* @__PURE__ */ a4("defs", { children: /* @__PURE__ */ a4("pattern", { id: "silence", width: "7", height: "7", patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)", children: [
    /* @__PURE__ */ a4("rect", { width: "7", height: "7", class: "hatch-ground" }),
    /* @__PURE__ */ a4("rect", { width: "2", height: "7", class: "hatch-line" })
  ] }) });
}
function zigzag(x3, top, bottom) {
  let path2 = `M${x3} ${top}`;
  for (let y5 = top, side = 1; y5 < bottom; y5 += 6, side = -side)
    path2 += `l${side * 3} ${Math.min(6, bottom - y5)}`;
  return path2;
}
function Grid({ drawing, height }) {
  const { folds, ticks: ticks2, width, lanes } = drawing;
  return /* @__PURE__ */ a4("g", { "aria-hidden": "true", children: [
    folds.map((fold) => /* @__PURE__ */ a4("g", { children: [
      /* @__PURE__ */ a4("rect", { class: "fold", x: fold.x0, y: AXIS, width: fold.x1 - fold.x0, height: height - AXIS - 4 }),
      /* @__PURE__ */ a4("path", { class: "fold-edge", d: zigzag(fold.x0, AXIS, height - 4) }),
      /* @__PURE__ */ a4("path", { class: "fold-edge", d: zigzag(fold.x1, AXIS, height - 4) }),
      /* @__PURE__ */ a4("text", { class: "tick strong", x: (fold.x0 + fold.x1) / 2, y: "19", "text-anchor": "middle", children: span(fold.to - fold.from) })
    ] }, fold.from)),
    ticks2.map((tick) => /* @__PURE__ */ a4("g", { children: [
      /* @__PURE__ */ a4("path", { class: "tick-line", d: `M${tick.x} ${AXIS}V${height - 4}` }),
      /* @__PURE__ */ a4("text", { class: "tick m", x: tick.x, y: "19", "text-anchor": "middle", children: axisTime(tick.at, tick.step) })
    ] }, tick.at)),
    Array.from({ length: lanes.length + 1 }, (_3, i4) => /* @__PURE__ */ a4("path", { class: "lane-line", d: `M0 ${AXIS + i4 * LANE + 0.5}H${width}` }, i4))
  ] });
}
function LaneView({ lane, y: y5, selected, choose }) {
  const title = /* @__PURE__ */ a4("text", { class: "lane-title", x: "0", y: y5 - 1, children: cut2(visible(lane.title), 19) });
  return /* @__PURE__ */ a4("g", { children: [
    lane.href ? /* @__PURE__ */ a4("a", { href: lane.href, children: title }) : title,
    /* @__PURE__ */ a4("text", { class: `lane-note t-${lane.look.tone}`, x: "0", y: y5 + 14, children: cut2(visible(lane.note), 23) }),
    /* @__PURE__ */ a4("g", { class: `t-${lane.look.tone} ink`, children: /* @__PURE__ */ a4(GlyphAt, { name: lane.look.glyph, x: GUTTER - 27, y: y5 + 1, size: 14 }) }),
    lane.bars.map((bar2, i4) => /* @__PURE__ */ a4(BarView, { bar: bar2, y: y5 }, i4)),
    lane.marks.map((mark, i4) => /* @__PURE__ */ a4(
      MarkView,
      {
        mark,
        y: y5,
        isSelected: mark.id !== void 0 && mark.id === selected,
        choose
      },
      i4
    )),
    lane.labels.map((label) => /* @__PURE__ */ a4(LabelView, { label, y: y5 }, `${label.row}${label.x}${label.text}`))
  ] });
}
var cut2 = (text2, max) => text2.length > max ? `${text2.slice(0, max - 1)}…` : text2;
function BarView({ bar: bar2, y: y5 }) {
  const width = Math.max(0, bar2.x1 - bar2.x0);
  const line2 = `M${bar2.x0} ${y5}H${bar2.x1}`;
  switch (bar2.style) {
    case "granted":
      return /* @__PURE__ */ a4("path", { class: "granted", d: line2 });
    case "backoff":
      return /* @__PURE__ */ a4("path", { class: "cause", d: line2 });
    case "late":
      return /* @__PURE__ */ a4("path", { class: "late", d: line2 });
    case "lease":
      return /* @__PURE__ */ a4("rect", { class: "lease", x: bar2.x0, y: y5 + 12, width, height: "4", rx: "2" });
    case "silence":
      return /* @__PURE__ */ a4("rect", { class: "silence", x: bar2.x0, y: y5 - 8, width, height: "16" });
    case "wait":
      return /* @__PURE__ */ a4("g", { children: [
        /* @__PURE__ */ a4(
          "rect",
          {
            class: `wait-bar ${bar2.isOpen ? "open" : ""}`,
            x: bar2.x0,
            y: y5 - 8,
            width,
            height: "16",
            rx: "8"
          }
        ),
        bar2.text && /* @__PURE__ */ a4("text", { class: "wait-text", x: bar2.x0 + 12, y: y5 + 4, children: visible(bar2.text) })
      ] });
    default:
      return /* @__PURE__ */ a4(
        "rect",
        {
          class: `work ${bar2.isOpen ? "open" : ""}`,
          x: bar2.x0,
          y: y5 - 8,
          width,
          height: "16",
          rx: "3"
        }
      );
  }
}
function MarkView({
  mark,
  y: y5,
  isSelected,
  choose
}) {
  const { id } = mark;
  const shape = /* @__PURE__ */ a4(MarkShape, { mark, y: y5 });
  if (id === void 0)
    return /* @__PURE__ */ a4("g", { class: `t-${mark.tone} ink`, children: [
      /* @__PURE__ */ a4("title", { children: mark.title }),
      shape
    ] });
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(id);
  };
  return /* @__PURE__ */ a4(
    "g",
    {
      class: `choice t-${mark.tone} ink`,
      role: "button",
      tabIndex: 0,
      "aria-pressed": isSelected,
      "aria-label": mark.title,
      onClick: () => choose(id),
      onKeyDown: onKey,
      children: [
        /* @__PURE__ */ a4("title", { children: mark.title }),
        /* @__PURE__ */ a4("rect", { class: isSelected ? "chosen" : "hit", x: mark.x - 15, y: y5 - 15, width: "30", height: "30", rx: "7" }),
        shape
      ]
    }
  );
}
function MarkShape({ mark, y: y5 }) {
  const { x: x3, glyph } = mark;
  switch (glyph) {
    case "grant":
      return /* @__PURE__ */ a4("circle", { cx: x3, cy: y5, r: "2.500", fill: "currentColor" });
    case "beat":
      return /* @__PURE__ */ a4("path", { class: "beat", d: `M${x3} ${y5 + 9}v10` });
    case "expiry":
      return /* @__PURE__ */ a4("path", { class: "expiry", d: `M${x3} ${y5 - 17}v34` });
    case "stop":
      return /* @__PURE__ */ a4("path", { class: "stop", d: `M${x3} ${y5 - 11}v22` });
    case "step":
      return /* @__PURE__ */ a4("path", { class: "step", d: `M${x3} ${y5 - 6}l6 6-6 6-6-6z` });
    case "refused":
      return /* @__PURE__ */ a4("g", { children: [
        /* @__PURE__ */ a4("path", { class: "refused", d: `M${x3} ${y5 - 10}l10 10-10 10-10-10z` }),
        /* @__PURE__ */ a4("path", { class: "cross", d: `M${x3 - 3.5} ${y5 - 3.5}l7 7M${x3 + 3.5} ${y5 - 3.5}l-7 7` })
      ] });
    default:
      return /* @__PURE__ */ a4("g", { children: [
        /* @__PURE__ */ a4("circle", { class: "halo", cx: x3, cy: y5, r: "9.500" }),
        /* @__PURE__ */ a4(GlyphAt, { name: glyph, x: x3, y: y5, size: 16 })
      ] });
  }
}
function LabelView({ label, y: y5 }) {
  const dy = { above: -12, level: -3, below: 12 }[label.row];
  const tone = label.tone ? `t-${label.tone}` : "";
  return /* @__PURE__ */ a4(
    "text",
    {
      class: `label ${tone} ${label.isStrong ? "strong" : ""}`,
      x: label.x,
      y: y5 + dy,
      "text-anchor": label.anchor,
      children: visible(label.text)
    }
  );
}
function LinkView({ link }) {
  const [y0, y1] = [laneY(link.fromLane), laneY(link.toLane)];
  const { fromX, toX } = link;
  if (link.style === "cause") return /* @__PURE__ */ a4("path", { class: "cause", d: `M${fromX} ${y0 + 8}V${y1}H${toX}` });
  if (link.style === "resume") {
    const turn = toX - 13;
    if (turn - fromX > 24) {
      return /* @__PURE__ */ a4("path", { class: "resume", d: `M${fromX + 11} ${y0}H${turn - 8}q8 0 8 -8V${y1 + 8}q0 -8 8 -8H${toX - 4}` });
    }
    return /* @__PURE__ */ a4(
      "path",
      {
        class: "resume",
        d: `M${fromX} ${y0 - 12}C${fromX} ${y1 + 18} ${toX - 12} ${y1} ${toX - 4} ${y1}`
      }
    );
  }
  const bend = Math.min(fromX, toX) - 13;
  return /* @__PURE__ */ a4("g", { children: [
    /* @__PURE__ */ a4(
      "path",
      {
        class: "takeover",
        d: `M${fromX} ${y0 + 17}C${fromX} ${y1 - 24} ${bend} ${y1 - 30} ${bend} ${y1 - 12}S${bend + 5} ${y1} ${toX - 5} ${y1}`
      }
    ),
    /* @__PURE__ */ a4("path", { class: "takeover-head", d: `M${toX - 6} ${y1 - 4.5}l6 4.500-6 4.500z` })
  ] });
}
function Legend() {
  return /* @__PURE__ */ a4("span", { class: "legend", children: [
    /* @__PURE__ */ a4("span", { children: [
      /* @__PURE__ */ a4("svg", { width: "22", height: "12", "aria-hidden": "true", children: [
        /* @__PURE__ */ a4("rect", { class: "work", y: "1", width: "22", height: "7", rx: "2" }),
        /* @__PURE__ */ a4("rect", { class: "lease", y: "10", width: "22", height: "2", rx: "1" })
      ] }),
      "work, lease"
    ] }),
    /* @__PURE__ */ a4("span", { class: "t-retry ink", children: [
      /* @__PURE__ */ a4(Glyph, { name: "take" }),
      "takeover"
    ] }),
    /* @__PURE__ */ a4("span", { class: "t-refused ink", children: [
      /* @__PURE__ */ a4(Glyph, { name: "refused" }),
      "refused"
    ] }),
    /* @__PURE__ */ a4("span", { class: "t-run ink", children: [
      /* @__PURE__ */ a4(Glyph, { name: "step" }),
      "checkpoint"
    ] }),
    /* @__PURE__ */ a4("span", { children: [
      /* @__PURE__ */ a4("svg", { width: "20", height: "12", "aria-hidden": "true", children: /* @__PURE__ */ a4("rect", { class: "fold", width: "20", height: "12" }) }),
      "idle time folded"
    ] })
  ] });
}

// src/pages/run-timeline.tsx
var EXCERPT = 9;
function TimelineTab({ whole, events }) {
  const selected = place.value.query.get("sel") ?? preselected(events);
  const isTrue = place.value.query.get("scale") === "true";
  const choose = (id) => go(withQuery({ sel: id }), { replace: true });
  const title = (n3) => whole.approvals.find((approval2) => approval2.approvalId.endsWith(`-${n3}`))?.subject ?? void 0;
  if (events.attempts.length === 0 && events.waits.length === 0) return /* @__PURE__ */ a4(NotStarted, { whole });
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(
      Card,
      {
        title: "Timeline",
        aside: /* @__PURE__ */ a4($, { children: [
          /* @__PURE__ */ a4(Legend, {}),
          /* @__PURE__ */ a4("a", { class: "switch", href: withQuery({ scale: isTrue ? void 0 : "true" }), children: isTrue ? "fold idle time" : "true proportions" })
        ] }),
        children: /* @__PURE__ */ a4("div", { class: "pad-x", children: /* @__PURE__ */ a4(
          Timeline,
          {
            events,
            isTrue,
            selected,
            choose,
            approvalTitle: title,
            nameOf
          }
        ) })
      }
    ),
    /* @__PURE__ */ a4("div", { class: "beside", children: [
      /* @__PURE__ */ a4(Selected, { whole, events, id: selected }),
      /* @__PURE__ */ a4(Excerpt, { whole, events, selected })
    ] })
  ] });
}
function preselected(events) {
  if (events.refused.length > 0) return "refused-0";
  const attempt = events.attempts.find((other) => other.outcome === "LOST") ?? events.attempts.at(-1);
  return attempt ? `attempt-${attempt.n}` : void 0;
}
function NotStarted({ whole }) {
  const gate = whole.explanation?.gates[0];
  return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(
    Empty,
    {
      title: "Nothing has happened yet",
      lines: [command("work", "--queue", whole.run.queue, "--exec", "cat")],
      children: [
        gate ? `${gate.now}. ` : "",
        "A worker that polls the queue ",
        /* @__PURE__ */ a4("code", { children: whole.run.queue }),
        " takes it:"
      ]
    }
  ) });
}
function Selected({ whole, events, id }) {
  const refused2 = events.refused.find((_3, i4) => id === `refused-${i4}`);
  if (refused2) return /* @__PURE__ */ a4(RefusedCard, { whole, events, refused: refused2 });
  const attempt = events.attempts.find((other) => id === `attempt-${other.n}`);
  if (attempt) return /* @__PURE__ */ a4(AttemptCard, { whole, attempt });
  const entry = whole.entries.find((other) => id === `entry-${other.n}`);
  if (entry) return /* @__PURE__ */ a4(EntryCard, { whole, entry });
  return /* @__PURE__ */ a4(Card, { title: "Details", children: /* @__PURE__ */ a4("p", { class: "pad-x muted", children: "Choose a mark of the timeline." }) });
}
var exact = (t4) => clockTime(t4, t4, timeStyle.value === "utc", true);
function Facts2({ rows }) {
  return /* @__PURE__ */ a4("dl", { class: "kv", children: rows.filter((row2) => row2 !== void 0).map(([name, value]) => /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { children: value })
  ] }, name)) });
}
function Toned({ tone, children }) {
  return /* @__PURE__ */ a4("span", { class: `t-${tone} ink`, children });
}
function RefusedCard({ whole, events, refused: refused2 }) {
  const attempt = events.attempts.find((other) => other.n === refused2.attempt);
  const current = events.attempts.findLast((other) => other.granted <= refused2.at);
  return /* @__PURE__ */ a4(
    Card,
    {
      title: /* @__PURE__ */ a4(Toned, { tone: "refused", children: [
        "Late ",
        refused2.call,
        " refused"
      ] }),
      aside: /* @__PURE__ */ a4("span", { class: "muted num", children: exact(refused2.at) }),
      children: [
        /* @__PURE__ */ a4(
          Facts2,
          {
            rows: [
              [
                "who",
                /* @__PURE__ */ a4($, { children: [
                  visible(refused2.worker),
                  ", attempt ",
                  refused2.attempt,
                  attempt && `, fence ${fence(attempt.fence)}`
                ] })
              ],
              [
                "when",
                attempt?.ended ? `${span(refused2.at - attempt.ended)} after its lease had ended` : exact(refused2.at)
              ],
              ["verdict", `${refused2.verdict}: the worker had lost its authority`],
              [
                "because",
                /* @__PURE__ */ a4($, { children: [
                  /* @__PURE__ */ a4("code", { children: refused2.error }),
                  current && current.n !== refused2.attempt && `: attempt ${current.n} of ${current.owner} was current`
                ] })
              ],
              [
                "effect",
                "none on the record. The program may still have acted outside: pass the fence to the systems it writes to."
              ]
            ]
          }
        ),
        /* @__PURE__ */ a4(Line, { run: whole.run.runId })
      ]
    }
  );
}
function AttemptCard({ whole, attempt }) {
  const look2 = outcomeLook(attempt.outcome);
  const isLost = attempt.outcome === "LOST";
  return /* @__PURE__ */ a4(
    Card,
    {
      title: /* @__PURE__ */ a4(Toned, { tone: look2.tone, children: [
        "Attempt ",
        attempt.n,
        ": ",
        look2.word
      ] }),
      aside: /* @__PURE__ */ a4("span", { class: "muted num", children: exact(attempt.granted) }),
      children: [
        /* @__PURE__ */ a4(
          Facts2,
          {
            rows: [
              ["who", /* @__PURE__ */ a4("a", { href: `runs?worker=${encodeURIComponent(attempt.owner)}`, children: visible(attempt.owner) })],
              ["lease", `granted with fence ${fence(attempt.fence)}, ${span(attempt.leaseMs)} with each renewal`],
              attempt.started === void 0 ? void 0 : ["started", `${span(attempt.started - attempt.granted)} after the grant`],
              isLost ? ["last heard", `${exact(attempt.lastBeat)}, one lease before the expiry`] : void 0,
              attempt.ended === void 0 ? ["lease ends", exact(attempt.expires)] : ["ended", `${exact(attempt.ended)}, after ${span(attempt.ended - attempt.granted)}`],
              attempt.reason && attempt.reason !== attempt.outcome ? ["because", /* @__PURE__ */ a4("code", { children: attempt.reason })] : void 0,
              attempt.message ? ["message", visible(attempt.message)] : void 0,
              attempt.steps.length > 0 ? [
                "recorded",
                attempt.steps.slice(0, 12).map((step) => step.key).join(", ")
              ] : void 0
            ]
          }
        ),
        /* @__PURE__ */ a4(Line, { run: whole.run.runId })
      ]
    }
  );
}
function EntryCard({ whole, entry }) {
  const key2 = entry.detail["step"] ?? entry.detail["wait"];
  const step = whole.steps.find((other) => other.key === key2);
  return /* @__PURE__ */ a4(
    Card,
    {
      title: words(entry.kind),
      note: `decision ${entry.n}`,
      aside: /* @__PURE__ */ a4("span", { class: "muted num", children: exact(ms(entry.at)) }),
      children: [
        /* @__PURE__ */ a4(
          Facts2,
          {
            rows: [
              ...Object.entries(entry.detail).map(([name, value]) => [
                name,
                visible(plain2(value))
              ]),
              step?.inputDigest ? ["input", /* @__PURE__ */ a4(Digest, { value: step.inputDigest, short: true })] : void 0,
              step?.result ? ["result", /* @__PURE__ */ a4("bdi", { class: "mono clip", children: visible(step.result.slice(0, 200)) })] : void 0
            ]
          }
        ),
        /* @__PURE__ */ a4(Line, { run: whole.run.runId })
      ]
    }
  );
}
function Line({ run }) {
  return /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: /* @__PURE__ */ a4(Cli, { line: command("runs", "show", run) }) });
}
var words = (kind) => kind.replaceAll("_", " ");
var plain2 = (value) => typeof value === "string" ? value : JSON.stringify(value);
function rowsOf(whole) {
  const decisions = whole.entries.map(
    (entry) => ({
      id: `entry-${entry.n}`,
      n: entry.n,
      at: ms(entry.at),
      what: words(entry.kind),
      detail: describe(entry),
      attempt: entry.attempt ?? void 0,
      tone: toneOf(entry)
    })
  );
  const refusals2 = (whole.run.refused ?? []).map(
    (call2, i4) => ({
      id: `refused-${i4}`,
      at: ms(call2.at),
      what: "refused",
      detail: `${call2.call} of ${call2.workerId}: ${call2.error}`,
      attempt: call2.attempt,
      tone: "refused"
    })
  );
  return [...decisions, ...refusals2].sort(
    (a5, b3) => a5.at - b3.at || (a5.n ?? Number.MAX_SAFE_INTEGER) - (b3.n ?? Number.MAX_SAFE_INTEGER)
  );
}
function toneOf(entry) {
  return entry.detail["outcome"] === "LOST" ? "retry" : entry.detail["outcome"] === "FAILED" ? "bad" : void 0;
}
function describe(entry) {
  const { detail } = entry;
  const text2 = (name) => typeof detail[name] === "string" ? detail[name] : void 0;
  if (entry.kind === "granted")
    return [
      `to ${text2("owner")}`,
      `fence ${fence(Number(detail["fence"]))}`,
      text2("step") && `${text2("step")} recorded`
    ].filter(Boolean).join(", ");
  if (text2("decision"))
    return [`${text2("by")?.slice(0, 8)}: ${text2("decision")}`, text2("comment") && `“${text2("comment")}”`].filter(Boolean).join(", ");
  if (entry.kind === "attempt_closed")
    return [
      text2("outcome"),
      text2("reason") !== text2("outcome") ? text2("reason") : void 0,
      text2("wait") && `waits for ${text2("wait")?.replace(/^wait:/, "")}`,
      text2("message")
    ].filter(Boolean).join(", ");
  if (entry.kind === "submitted" || entry.kind === "planned") return `${text2("kind")} on ${text2("queue")}`;
  return [
    text2("step"),
    text2("wait"),
    text2("signal"),
    text2("childKey"),
    text2("child"),
    text2("key"),
    text2("cancelReason")
  ].filter(Boolean).join(", ");
}
function HistoryRows({ rows, selected }) {
  const choose = (id) => go(withQuery({ sel: id }), { replace: true });
  return /* @__PURE__ */ a4("table", { class: "history", children: [
    /* @__PURE__ */ a4("thead", { class: "vh", children: /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("th", { children: "number" }),
      /* @__PURE__ */ a4("th", { children: "time" }),
      /* @__PURE__ */ a4("th", { children: "decision" }),
      /* @__PURE__ */ a4("th", { children: "detail" }),
      /* @__PURE__ */ a4("th", { children: "attempt" })
    ] }) }),
    /* @__PURE__ */ a4("tbody", { children: rows.map((row2) => /* @__PURE__ */ a4("tr", { class: `${row2.id === selected ? "sel" : ""} ${row2.tone ? `t-${row2.tone}` : ""}`, children: [
      /* @__PURE__ */ a4("td", { class: "num muted", children: row2.n ?? "" }),
      /* @__PURE__ */ a4("td", { class: "num", children: exact(row2.at) }),
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4(
        "button",
        {
          type: "button",
          class: "plain",
          "data-row": true,
          "aria-pressed": row2.id === selected,
          onClick: () => choose(row2.id),
          children: row2.what
        }
      ) }),
      /* @__PURE__ */ a4("td", { class: "wide-cell", children: visible(row2.detail) }),
      /* @__PURE__ */ a4("td", { class: "muted nowrap", children: row2.attempt === void 0 ? "" : `attempt ${row2.attempt}` })
    ] }, row2.id)) })
  ] });
}
function Excerpt({
  whole,
  selected,
  events
}) {
  const rows = rowsOf(whole);
  const at = Math.max(
    0,
    rows.findIndex((row2) => row2.id === selected || isClosing(row2, selected, events))
  );
  const from = Math.max(0, Math.min(at - 4, rows.length - EXCERPT));
  const refused2 = whole.run.refused?.length ?? 0;
  const note = `${whole.entries.length} decisions${refused2 > 0 ? ` and ${refused2} ${refused2 === 1 ? "refusal" : "refusals"}` : ""}, in order of commit`;
  return /* @__PURE__ */ a4(Card, { title: "History", note, aside: /* @__PURE__ */ a4("a", { href: `runs/${whole.run.runId}/history`, children: "all" }), children: /* @__PURE__ */ a4(HistoryRows, { rows: rows.slice(from, from + EXCERPT), selected }) });
}
function isClosing(row2, selected, events) {
  const attempt = events.attempts.find((other) => selected === `attempt-${other.n}`);
  return attempt !== void 0 && row2.n === (attempt.closedBy ?? attempt.entry);
}
function HistoryTab({ whole }) {
  const rows = rowsOf(whole);
  return /* @__PURE__ */ a4(
    Card,
    {
      title: "History",
      note: "every decision about the run, in order of commit; nothing is ever changed or removed",
      children: /* @__PURE__ */ a4(HistoryRows, { rows, selected: place.value.query.get("sel") ?? void 0 })
    }
  );
}

// src/pages/run.tsx
var ENTRIES_MAX = 4e3;
async function readWhole(id, known, signal) {
  const run = await get(`v1/runs/${id}`, { query: { tree: 20 }, signal });
  const isOver = known !== void 0 && isEnded(known.run.state) && isEnded(run.state);
  if (isOver && known.effects.every(isSettled)) return { ...known, run };
  const entries = await readHistory(id, known?.entries ?? [], signal);
  const optional = (read2) => read2.catch(() => void 0);
  const [steps, effects, explanation, approvals2] = await Promise.all([
    run.durable ? optional(get(`v1/runs/${id}/steps`, { query: { limit: 1e3 }, signal })) : void 0,
    optional(readEffects(run, known?.effects ?? [], signal)),
    optional(get(`v1/runs/${id}/explain`, { signal })),
    readApprovals(run, entries, known?.approvals ?? [], signal)
  ]);
  return { run, entries, steps: steps?.steps ?? [], effects: effects ?? [], explanation, approvals: approvals2 };
}
async function readHistory(id, known, signal) {
  const entries = [...known];
  for (; ; ) {
    const after = entries.at(-1)?.n ?? 0;
    const page = await get(`v1/runs/${id}/history`, { query: { after, limit: 1e3 }, signal });
    entries.push(...page.entries);
    if (page.entries.length < 1e3 || entries.length >= ENTRIES_MAX) return entries;
  }
}
var isSettled = (effect) => effect.state === "delivered" || effect.state === "dead";
var TOLD_EFFECTS_MAX = 20;
async function readEffects(run, known, signal) {
  const query = { runId: run.runId, limit: 50 };
  const { effects } = await get("v1/effects", { query, signal });
  const whole = (listed, i4) => {
    const told = known.find((effect) => effect.effectId === listed.effectId);
    if (i4 >= TOLD_EFFECTS_MAX) return listed;
    if (told && isSettled(told) && told.state === listed.state) return told;
    return get(`v1/effects/${listed.effectId}`, { signal }).catch(() => listed);
  };
  return Promise.all(effects.map(whole));
}
async function readApprovals(run, entries, known, signal) {
  const numbers = new Set(
    entries.map((entry) => entry.detail["approval"]).filter((n3) => typeof n3 === "number")
  );
  const ids = [...numbers].slice(0, 20).map((n3) => `appr_${run.taskId.replace(/^task_/, "")}-${n3}`);
  const read2 = (id) => {
    const closed = known.find((approval2) => approval2.approvalId === id && approval2.state === "closed");
    return closed ?? get(`v1/approvals/${id}`, { signal }).catch(() => void 0);
  };
  return (await Promise.all(ids.map(read2))).filter(
    (approval2) => approval2 !== void 0
  );
}
function RunPage({ id: named, tab }) {
  const id = runIdOf(named);
  const known = useSignal(void 0);
  const query = useQuery(`run ${id}`, "run", async (signal) => {
    const whole2 = await readWhole(id, known.value, signal);
    known.value = whole2;
    return whole2;
  });
  const whole = query.data.value;
  if (!whole) {
    const problem = query.problem.value;
    if (problem?.status === 404) return /* @__PURE__ */ a4(Gone, { id });
    return problem ? /* @__PURE__ */ a4(Failed, { problem, again: query.again }) : /* @__PURE__ */ a4(Loading, { rows: 12 });
  }
  return /* @__PURE__ */ a4(Shown3, { whole, tab, again: query.again });
}
function Gone({ id }) {
  return /* @__PURE__ */ a4(Empty, { title: "This run is not here", lines: [command("prove", id)], children: [
    "No run of this workspace has the id ",
    /* @__PURE__ */ a4("code", { children: id }),
    ". It may belong to another workspace, or retention has removed it; its seal still names it."
  ] });
}
function Shown3({ whole, tab, again }) {
  const { run, entries, effects, explanation } = whole;
  const events = eventsOf(run, entries, effects, isEnded(run.state) ? 0 : Math.max(clock.value, now()));
  const parts = story(run, events, explanation?.gates ?? [], timeStyle.value === "utc");
  const look2 = stateLook(run.state);
  document.title = `${run.kind} ${run.state} · Tenure`;
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("div", { class: "crumb", children: [
      /* @__PURE__ */ a4("a", { href: "runs", children: "Runs" }),
      " /",
      " ",
      /* @__PURE__ */ a4("a", { href: `runs?kind=${encodeURIComponent(run.kind)}`, children: visible(run.kind) })
    ] }),
    /* @__PURE__ */ a4("div", { class: "head", children: [
      /* @__PURE__ */ a4("h1", { children: visible(run.kind) }),
      /* @__PURE__ */ a4(Pill, { look: look2 }),
      /* @__PURE__ */ a4("span", { class: "id", children: [
        /* @__PURE__ */ a4("code", { class: "soft", children: run.runId }),
        /* @__PURE__ */ a4(Copy, { text: run.runId })
      ] }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      /* @__PURE__ */ a4(Actions, { run, again })
    ] }),
    /* @__PURE__ */ a4(
      Facts3,
      {
        run,
        lost: events.attempts.filter((attempt) => attempt.outcome === "LOST").length,
        work: workOf(events)
      }
    ),
    /* @__PURE__ */ a4("p", { class: `story t-${look2.tone}`, children: /* @__PURE__ */ a4(Sentence, { parts }) }),
    /* @__PURE__ */ a4(Tabs2, { id: run.runId, tab, whole }),
    tab === "timeline" && /* @__PURE__ */ a4(TimelineTab, { whole, events }),
    tab === "steps" && /* @__PURE__ */ a4(StepsTab, { steps: whole.steps }),
    tab === "payloads" && /* @__PURE__ */ a4(PayloadsTab, { run }),
    tab === "effects" && /* @__PURE__ */ a4(EffectsTab2, { effects, run }),
    tab === "children" && /* @__PURE__ */ a4(ChildrenTab, { run }),
    tab === "history" && /* @__PURE__ */ a4(HistoryTab, { whole }),
    tab === "record" && /* @__PURE__ */ a4(RecordTab, { run }),
    tab === "raw" && /* @__PURE__ */ a4(RawTab, { run }),
    tab !== "timeline" && /* @__PURE__ */ a4("div", { class: "foot", children: /* @__PURE__ */ a4(Cli, { line: commandOf(tab, run) }) })
  ] });
}
function commandOf(tab, run) {
  if (tab === "history") return command("runs", "history", run.runId);
  if (tab === "record") return command("runs", "record", run.runId);
  if (tab === "effects") return command("effects", "--run", run.runId);
  if (tab === "raw") return command("runs", "show", run.runId, "--json");
  return command("runs", "show", run.runId);
}
function Fact({ name, children }) {
  return /* @__PURE__ */ a4("div", { children: [
    /* @__PURE__ */ a4("dt", { children: name }),
    /* @__PURE__ */ a4("dd", { children })
  ] });
}
function workOf(events) {
  return events.attempts.reduce((sum, attempt) => sum + (attempt.ended ?? events.to) - attempt.granted, 0);
}
function spent(run) {
  const { limits, used } = run.budget ?? {};
  if (!limits || !used) return [];
  const units = [
    ["tokens", used.tokens, limits.tokens],
    ["tool calls", used.toolCalls, limits.toolCalls],
    ["budgeted steps", used.steps, limits.steps]
  ];
  return units.flatMap(
    ([unit, n3, limit]) => typeof limit === "number" ? [[unit, `${counted(n3)} of ${counted(limit)}`]] : []
  );
}
var counted = (n3) => n3.toLocaleString("en");
function Facts3({ run, lost: lost2, work }) {
  const end2 = ms(run.completedAt);
  const created = ms(run.createdAt);
  return /* @__PURE__ */ a4("dl", { class: "facts", children: [
    /* @__PURE__ */ a4(Fact, { name: "queue", children: /* @__PURE__ */ a4("a", { href: `queues/${run.queue.replaceAll("/", "~")}`, children: visible(run.queue) }) }),
    /* @__PURE__ */ a4(Fact, { name: "submitted", children: /* @__PURE__ */ a4(Time, { at: run.createdAt }) }),
    /* @__PURE__ */ a4(Fact, { name: end2 === void 0 ? "open for" : "took", children: [
      /* @__PURE__ */ a4("b", { children: span((end2 ?? clock.value) - created) }),
      " ",
      work > 0 && /* @__PURE__ */ a4("span", { class: "muted", children: [
        "(",
        span(work),
        " of work)"
      ] })
    ] }),
    run.attempt > 0 && /* @__PURE__ */ a4(Fact, { name: "attempts", children: [
      run.attempt,
      lost2 > 0 && /* @__PURE__ */ a4($, { children: [
        ", ",
        /* @__PURE__ */ a4("span", { class: "t-retry ink", children: [
          lost2,
          " lost"
        ] })
      ] })
    ] }),
    spent(run).map(([unit, words2]) => /* @__PURE__ */ a4(Fact, { name: unit, children: words2 }, unit)),
    run.lease && /* @__PURE__ */ a4(Fact, { name: "lease ends", children: /* @__PURE__ */ a4(Time, { at: run.lease.expiresAt }) }),
    run.deadline && /* @__PURE__ */ a4(Fact, { name: "deadline", children: /* @__PURE__ */ a4(Time, { at: run.deadline }) }),
    run.parent && /* @__PURE__ */ a4(Fact, { name: "child of", children: /* @__PURE__ */ a4("a", { href: `runs/${runIdOf(run.parent.taskId)}`, children: visible(run.parent.key) }) }),
    run.retryOf && /* @__PURE__ */ a4(Fact, { name: "retry of", children: /* @__PURE__ */ a4("a", { href: `runs/${run.retryOf}`, children: run.retryOf }) }),
    run.forkOf && /* @__PURE__ */ a4(Fact, { name: "continues", children: /* @__PURE__ */ a4("a", { href: `runs/${run.forkOf}`, children: run.forkOf }) }),
    [...run.retries ?? [], ...run.forks ?? []].map((id) => /* @__PURE__ */ a4(Fact, { name: "went on as", children: /* @__PURE__ */ a4("a", { href: `runs/${id}`, children: id }) }, id)),
    Object.entries(run.labels ?? {}).slice(0, 6).map(([name, value]) => /* @__PURE__ */ a4(Fact, { name: visible(name), children: /* @__PURE__ */ a4("a", { href: `runs?label=${encodeURIComponent(`${name}=${value}`)}`, children: visible(String(value)) }) }, name))
  ] });
}
function Tabs2({ id, tab, whole }) {
  const { run, entries, steps, effects } = whole;
  const children = run.durable?.children ?? 0;
  const all = [
    ["timeline", "Timeline", true],
    ["steps", `Steps ${steps.length}`, steps.length > 0],
    ["payloads", "Input and output", true],
    ["effects", `Effects ${effects.length}`, effects.length > 0],
    ["children", `Children ${children}`, children > 0],
    ["history", `History ${entries.length}`, true],
    ["record", "Record", isEnded(run.state)],
    ["raw", "Raw", true]
  ];
  const query = place.value.query.toString();
  return /* @__PURE__ */ a4("nav", { class: "tabs", "aria-label": "Parts of the run", children: all.filter(([name, , isThere]) => isThere || name === tab).map(([name, title]) => /* @__PURE__ */ a4(
    "a",
    {
      class: tab === name ? "on" : "",
      "aria-current": tab === name ? "page" : void 0,
      href: `runs/${id}${name === "timeline" ? "" : `/${name}`}${query ? `?${query}` : ""}`,
      children: title
    },
    name
  )) });
}

// src/model/why.ts
function why(run, at) {
  if (run.error)
    return run.error.reason === run.error.category ? run.error.message : `${run.error.reason}: ${run.error.message}`;
  if (run.cancelRequestedAt && !run.completedAt)
    return `cancelling since ${roughly(at - ms(run.cancelRequestedAt))}`;
  switch (run.state) {
    case "waiting":
      return waiting(run);
    case "retry":
      return run.nextAttemptAt ? `attempt ${run.attempt + 1} ${relative(ms(run.nextAttemptAt), at)}` : "another attempt follows";
    case "running":
      return running(run, at);
    case "queued":
      return run.runAt && ms(run.runAt) > at ? `starts ${relative(ms(run.runAt), at)}` : "waits for a worker";
    case "blocked":
      return "waits for other steps of its plan";
    default:
      return "";
  }
}
function running(run, at) {
  const lease = run.lease;
  if (!lease) return "";
  if (lease.stalledAt) return `no progress since ${roughly(at - ms(lease.progressedAt ?? lease.stalledAt))}`;
  const percent = typeof lease.progressPct === "number" ? `${Math.round(lease.progressPct)} %` : "";
  return [percent, lease.message ?? ""].filter(Boolean).join(", ");
}
function waiting(run) {
  const parked = run.durable?.waiting;
  if (parked?.diverged)
    return `diverged: its code does not match what it recorded at ${parked.diverged.recorded}`;
  if (parked?.ending) return "ends when its children have ended";
  const wait = parked?.wait;
  if (!wait) return "ready to go on";
  const names2 = wait.for.map(awaited);
  const first = names2.slice(0, 2).join(wait.mode === "any" ? " or " : " and ");
  return names2.length > 2 ? `waits for ${first} and ${names2.length - 2} more` : `waits for ${first}`;
}
function awaited(item) {
  if (item.approval) return "an approval";
  if (item.signal) return `the signal ${item.signal}`;
  if (item.child) return `its child ${item.key}`;
  if (item.effect) return "the delivery of an effect";
  if (item.until) return "a time";
  return item.key;
}

// src/parts/filter.tsx
var NAMES = ["kind", "queue", "worker", "label", "category", "since", "children"];
var HINTS = {
  kind: "invoice.process",
  queue: "invoices",
  worker: "alice",
  label: "customer=acme",
  category: "USER_CODE",
  since: "15m, 24h or 7d",
  children: "true"
};
function refusal3(name, value) {
  if (value === "") return "say what to look for";
  if (name === "since" && !/^\d{1,4}[mhd]$/.test(value)) return "a number with m, h or d, such as 24h";
  if (name === "children" && value !== "true" && value !== "false") return "true or false";
  if (["kind", "queue", "worker"].includes(name) && !/^[A-Za-z0-9._:/-]{1,128}$/.test(value))
    return "letters, digits and . _ : / - only";
  if (name === "category" && !/^(USER_CODE|DATA_QUALITY|INFRASTRUCTURE|CONFIGURATION|TIMEOUT)$/.test(value)) {
    return "USER_CODE, DATA_QUALITY, INFRASTRUCTURE, CONFIGURATION or TIMEOUT";
  }
  return void 0;
}
function FilterBar() {
  const name = useSignal("kind");
  const value = useSignal("");
  const problem = useSignal(void 0);
  const query = place.value.query;
  const chosen = [...query].filter(([key2]) => NAMES.includes(key2));
  const add = (event) => {
    event.preventDefault();
    problem.value = refusal3(name.value, value.value.trim());
    if (problem.value) return;
    go(withQuery({ [name.value]: value.value.trim() }));
    value.value = "";
  };
  return /* @__PURE__ */ a4("form", { class: "filter", onSubmit: add, children: [
    chosen.map(([key2, text2]) => /* @__PURE__ */ a4(
      "a",
      {
        class: "chip on-soft",
        href: withQuery({ [key2]: void 0 }),
        "aria-label": `remove the filter ${key2} ${text2}`,
        children: [
          /* @__PURE__ */ a4("span", { class: "muted", children: key2 }),
          " ",
          /* @__PURE__ */ a4("bdi", { children: text2 }),
          " ×"
        ]
      },
      key2 + text2
    )),
    /* @__PURE__ */ a4("label", { class: "vh", for: "filter-name", children: "Filter by" }),
    /* @__PURE__ */ a4(
      "select",
      {
        id: "filter-name",
        value: name.value,
        onChange: (event) => {
          name.value = event.currentTarget.value;
          problem.value = void 0;
        },
        children: NAMES.map((each) => /* @__PURE__ */ a4("option", { value: each, children: each }, each))
      }
    ),
    /* @__PURE__ */ a4("label", { class: "vh", for: "filter-value", children: "Value" }),
    /* @__PURE__ */ a4(
      "input",
      {
        id: "filter-value",
        type: "text",
        value: value.value,
        placeholder: HINTS[name.value],
        "aria-describedby": "filter-problem",
        onInput: (event) => {
          value.value = event.currentTarget.value;
        }
      }
    ),
    /* @__PURE__ */ a4("button", { type: "submit", class: "btn", children: "Filter" }),
    /* @__PURE__ */ a4("span", { id: "filter-problem", class: "t-bad ink", role: "status", children: problem.value ?? "" })
  ] });
}

// src/parts/rows.tsx
var SPARE2 = 10;
function VirtualRows({ items, height, row: row2, nearEnd }) {
  const box = T2(null);
  const range = useSignal([0, 60]);
  const onNearEnd = T2(nearEnd);
  onNearEnd.current = nearEnd;
  A2(() => {
    const measure = () => {
      const top = -(box.current?.getBoundingClientRect().top ?? 0);
      const first2 = Math.max(0, Math.floor(top / height) - SPARE2);
      const last2 = Math.ceil((top + innerHeight) / height) + SPARE2;
      if (first2 !== range.value[0] || last2 !== range.value[1]) range.value = [first2, last2];
      if (last2 >= items.length && scrollY > 0) onNearEnd.current?.();
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [items.length, height]);
  const [first, last] = range.value;
  return /* @__PURE__ */ a4("div", { ref: box, role: "rowgroup", style: { height: `${items.length * height}px` }, children: /* @__PURE__ */ a4("div", { role: "presentation", style: { transform: `translateY(${first * height}px)` }, children: items.slice(first, last).map((item, i4) => row2(item, first + i4)) }) });
}

// src/pages/runs.tsx
var PAGE2 = 50;
var ROWS_MAX = 5e3;
var FILTERS = ["state", "queue", "kind", "label", "worker", "category", "children"];
function apiQuery(query, at) {
  const asked = new URLSearchParams();
  for (const name of FILTERS)
    for (const value of query.getAll(name)) if (value !== "") asked.append(name, value);
  const since = duration(query.get("since"));
  if (since !== void 0) asked.set("since", new Date(at - since).toISOString());
  return asked;
}
function duration(text2) {
  const match = text2?.match(/^(\d{1,4})([mhd])$/);
  if (!match) return void 0;
  return Number(match[1]) * { m: 6e4, h: 36e5, d: 864e5 }[match[2]];
}
function RunsPage() {
  const query = place.value.query;
  const key2 = query.toString();
  const list = useRuns(key2, query);
  const count = list.rows.value.length;
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4("div", { class: "head", children: [
      /* @__PURE__ */ a4("h1", { children: "Runs" }),
      count > 0 && /* @__PURE__ */ a4("span", { class: "soft", children: [
        count,
        list.cursor.value ? " and more" : "",
        ", newest first"
      ] }),
      /* @__PURE__ */ a4("span", { class: "sp" }),
      list.above.value.length > 0 && /* @__PURE__ */ a4("button", { type: "button", class: "btn", onClick: list.showNew, children: [
        list.above.value.length,
        " new above ↑"
      ] })
    ] }),
    /* @__PURE__ */ a4(StateTabs, {}),
    /* @__PURE__ */ a4(FilterBar, {}),
    list.problem.value && /* @__PURE__ */ a4(Failed, { problem: list.problem.value, again: list.again }),
    /* @__PURE__ */ a4(Rows, { list }),
    /* @__PURE__ */ a4("div", { class: "foot", children: /* @__PURE__ */ a4(Cli, { line: listCommand(query) }) })
  ] });
}
function StateTabs() {
  const chosen = place.value.query.get("state") ?? "";
  return /* @__PURE__ */ a4("nav", { class: "chips", "aria-label": "State", children: [
    /* @__PURE__ */ a4(
      "a",
      {
        class: `chip ${chosen === "" ? "on" : ""}`,
        "aria-current": chosen === "" ? "true" : void 0,
        href: withQuery({ state: void 0 }),
        children: "all"
      }
    ),
    STATE_NAMES.filter((state) => state !== "skipped" && state !== "blocked").map((state) => {
      const look2 = stateLook(state);
      const isOn = chosen === state;
      return /* @__PURE__ */ a4(
        "a",
        {
          class: `chip ${isOn ? "on" : ""}`,
          "aria-current": isOn ? "true" : void 0,
          href: withQuery({ state: isOn ? void 0 : state }),
          children: [
            /* @__PURE__ */ a4("span", { class: isOn ? "" : `t-${look2.tone} ink`, children: /* @__PURE__ */ a4(Glyph, { name: look2.glyph, size: 11 }) }),
            state
          ]
        },
        state
      );
    })
  ] });
}
function useRuns(key2, query) {
  const rows = useSignal([]);
  const above = useSignal([]);
  const cursor = useSignal(void 0);
  const searched = useSignal(void 0);
  const problem = useSignal(void 0);
  const isRead = useSignal(false);
  const again = T2(async () => {
  });
  A2(() => {
    let isOver = false;
    rows.value = [];
    above.value = [];
    cursor.value = void 0;
    isRead.value = false;
    again.current = async () => {
      try {
        const asked = apiQuery(query, now());
        asked.set("limit", String(PAGE2));
        const page = await get("v1/runs", { query: asked });
        if (isOver) return;
        merge(page);
        problem.value = void 0;
        fresh();
      } catch (error2) {
        if (isOver) return;
        problem.value = asProblem(error2);
        if (problem.value.isUnreachable) lost();
      }
    };
    const merge = (page) => {
      if (!isRead.value) {
        rows.value = page.runs;
        cursor.value = page.nextCursor ?? void 0;
        searched.value = page;
        isRead.value = true;
        return;
      }
      const known = new Set(rows.value.map((run) => run.runId));
      const changed = new Map(page.runs.map((run) => [run.runId, run]));
      rows.value = rows.value.map((run) => changed.get(run.runId) ?? run);
      above.value = page.runs.filter((run) => !known.has(run.runId));
      if (scrollY < 40) showNew();
    };
    const stop = follow("runs", () => again.current());
    return () => {
      isOver = true;
      stop();
    };
  }, [key2]);
  const showNew = () => {
    rows.value = [...above.value, ...rows.value].slice(0, ROWS_MAX);
    above.value = [];
  };
  const more = async () => {
    if (!cursor.value || rows.value.length >= ROWS_MAX) return;
    const asked = apiQuery(query, now());
    asked.set("limit", String(PAGE2 * 2));
    asked.set("cursor", cursor.value);
    cursor.value = void 0;
    try {
      const page = await get("v1/runs", { query: asked });
      const known = new Set(rows.value.map((run) => run.runId));
      rows.value = [...rows.value, ...page.runs.filter((run) => !known.has(run.runId))];
      cursor.value = page.nextCursor ?? void 0;
      searched.value = page;
    } catch (error2) {
      problem.value = asProblem(error2);
    }
  };
  return { rows, above, cursor, searched, problem, isRead, again: () => again.current(), more, showNew };
}
function Rows({ list }) {
  const runs = list.rows.value;
  if (!list.isRead.value)
    return list.problem.value ? null : /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(Loading, { rows: 8 }) });
  if (runs.length === 0)
    return /* @__PURE__ */ a4("section", { class: "card", children: /* @__PURE__ */ a4(NoRuns, { list }) });
  return /* @__PURE__ */ a4("section", { class: "card grid-table runs", children: [
    /* @__PURE__ */ a4("div", { role: "table", "aria-label": "Runs", "aria-rowcount": runs.length, children: [
      /* @__PURE__ */ a4("div", { class: "tr th", role: "row", children: ["state", "kind", "queue", "submitted", "took", "attempts", "worker", "why"].map((name) => /* @__PURE__ */ a4("span", { role: "columnheader", class: `c-${name}`, children: name }, name)) }),
      /* @__PURE__ */ a4(
        VirtualRows,
        {
          items: runs,
          height: 34,
          nearEnd: list.more,
          row: (run, i4) => /* @__PURE__ */ a4(Row, { run, index: i4 }, run.runId)
        }
      )
    ] }),
    /* @__PURE__ */ a4(Bound, { list })
  ] });
}
function Row({ run, index }) {
  const started = ms(run.startedAt);
  const end2 = ms(run.completedAt);
  const took = end2 !== void 0 ? end2 - ms(run.createdAt) : started !== void 0 ? clock.value - started : void 0;
  return /* @__PURE__ */ a4("div", { class: "tr", role: "row", "aria-rowindex": index + 1, children: [
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-state", children: /* @__PURE__ */ a4(Mark, { look: stateLook(run.state) }) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-kind strong", children: /* @__PURE__ */ a4("a", { class: "row-link", "data-row": true, href: `runs/${run.runId}`, children: visible(run.kind) }) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-queue soft", children: visible(run.queue) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-submitted", children: /* @__PURE__ */ a4(Time, { at: run.createdAt }) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-took num", children: took === void 0 ? "" : span(took) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-attempts num", children: attempts(run) }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-worker soft", children: visible(run.workerId ?? run.lease?.owner ?? "–") }),
    /* @__PURE__ */ a4("span", { role: "cell", class: "c-why soft", title: visible(why(run, clock.value)), children: visible(why(run, clock.value)) })
  ] });
}
function attempts(run) {
  if (run.attempt === 0) return "";
  return run.lost > 0 ? /* @__PURE__ */ a4($, { children: [
    run.attempt,
    ", ",
    /* @__PURE__ */ a4("b", { class: "t-retry ink", children: [
      run.lost,
      " lost"
    ] })
  ] }) : run.attempt;
}
function Bound({ list }) {
  const { searched, cursor } = list;
  const answer2 = searched.value;
  if (!cursor.value) return null;
  const isBound = answer2?.stopped === "scan";
  return /* @__PURE__ */ a4("div", { class: "bound muted", children: [
    isBound && /* @__PURE__ */ a4($, { children: [
      "searched ",
      answer2?.searched,
      " runs, back to ",
      /* @__PURE__ */ a4(Time, { at: answer2?.searchedTo }),
      " ·",
      " "
    ] }),
    /* @__PURE__ */ a4("button", { type: "button", class: "link", onClick: list.more, children: isBound ? "search on" : "show more" })
  ] });
}
function NoRuns({ list }) {
  const isFiltered = [...place.value.query.keys()].length > 0;
  const answer2 = list.searched.value;
  if (isFiltered) {
    return /* @__PURE__ */ a4(Empty, { title: "No run matches", children: [
      answer2?.searched ? `${answer2.searched} runs were looked at. ` : "",
      list.cursor.value ? /* @__PURE__ */ a4("button", { type: "button", class: "link", onClick: list.more, children: "Search on" }) : /* @__PURE__ */ a4("a", { href: "runs", children: "Show all runs" })
    ] });
  }
  return /* @__PURE__ */ a4(
    Empty,
    {
      title: "No run yet",
      lines: [
        "tenure work --queue demo --exec cat",
        `tenure submit hello --queue demo --input '{"name":"Ada"}' --wait`,
        "tenure tour"
      ],
      children: "Any program can be a worker. Start one, submit a run, and it appears here; or watch the tour, which kills a worker."
    }
  );
}

// src/pages/schedules.tsx
var PAGE3 = 200;
var INSTANTS = 5;
var ENTRIES = 20;
function SchedulesPage({ name }) {
  document.title = "Schedules · Tenure";
  if (!name) return /* @__PURE__ */ a4(SchedulesList, {});
  return name.includes("~") ? /* @__PURE__ */ a4(NamedSchedule, { path: name }, name) : /* @__PURE__ */ a4(SchedulePage, { named: name });
}
function terms(schedule) {
  if (schedule.cron) return `${schedule.cron}${schedule.timeZone ? ` (${schedule.timeZone})` : ""}`;
  return schedule.everyMs ? `every ${span(schedule.everyMs).replace(/ 00 (s|min)$/, "")}` : "";
}
function scheduleLook(schedule, now2) {
  if (schedule.state === "paused") return { tone: "retry", glyph: "park", word: "paused" };
  if (schedule.state === "deleted") return { tone: "queue", glyph: "cancel", word: "deleted" };
  const due = ms(schedule.nextAt);
  const isLate = schedule.waiting > 0 || due !== void 0 && due < now2 - LATE_MS;
  return isLate ? { tone: "bad", glyph: "bad", word: "late" } : { tone: "ok", glyph: "ok", word: "active" };
}
var LATE_MS = 6e4;
var handle = (schedule) => schedule.name.includes("/") ? schedule.scheduleId : schedule.name;
var SEARCHED_MAX = 5e3;
async function idOf(path2, signal) {
  let cursor;
  let searched = 0;
  do {
    const page = await get("v1/schedules", { query: { limit: PAGE3, cursor }, signal });
    const found = page.schedules.find(({ name: name2 }) => inPath(name2) === path2);
    if (found) return found.scheduleId;
    searched += page.schedules.length;
    cursor = page.cursor ?? void 0;
  } while (cursor !== void 0 && searched < SEARCHED_MAX);
  const name = path2.replaceAll("~", "/");
  const where = cursor === void 0 ? "the schedules of this workspace" : `the first ${searched} schedules`;
  const message = `none of ${where} is named ${name}; one that was deleted is found by its id`;
  throw new Problem(404, "not_found", "There is no such schedule", message);
}
function NamedSchedule({ path: path2 }) {
  const query = useQuery(`schedule ${path2}`, void 0, (signal) => idOf(path2, signal));
  const id = query.data.value;
  if (id !== void 0) return /* @__PURE__ */ a4(SchedulePage, { named: id });
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Crumb, { name: "Schedules", to: "schedules" }),
    /* @__PURE__ */ a4(Read, { query, children: () => null })
  ] });
}
function SchedulesList() {
  const query = useQuery(
    "schedules",
    "queues",
    (signal) => get("v1/schedules", { query: { limit: PAGE3 }, signal })
  );
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Head, { title: "Schedules", note: "runs that are submitted again and again" }),
    /* @__PURE__ */ a4(
      Listing,
      {
        query,
        isEmpty: ({ schedules }) => schedules.length === 0,
        empty: /* @__PURE__ */ a4(
          Empty,
          {
            title: "No schedule yet",
            lines: ["tenure schedules create nightly --cron '15 2 * * *' --kind report --queue reports"],
            children: "A schedule submits a run at every instant of a cron expression or interval, once, also when the server was down in between."
          }
        ),
        children: ({ schedules }) => /* @__PURE__ */ a4(Table, { isList: true, items: schedules, by: (schedule) => schedule.scheduleId, columns: COLUMNS2 })
      }
    ),
    /* @__PURE__ */ a4(Foot, { lines: ["tenure schedules list"] })
  ] });
}
var COLUMNS2 = [
  ["state", (schedule) => /* @__PURE__ */ a4(Mark, { look: scheduleLook(schedule, clock.value) }), "nowrap"],
  [
    "schedule",
    (schedule) => /* @__PURE__ */ a4("a", { "data-row": true, href: `schedules/${inPath(schedule.name)}`, children: visible(schedule.name) }),
    "strong"
  ],
  ["when", (schedule) => /* @__PURE__ */ a4("code", { children: visible(terms(schedule)) }), "hide-narrow"],
  ["next", (schedule) => /* @__PURE__ */ a4(Time, { at: schedule.nextAt }), "nowrap"],
  ["last run", (schedule) => /* @__PURE__ */ a4(LastRun, { schedule }), "nowrap hide-narrow"],
  ["fired", (schedule) => schedule.fired, "num r hide-narrow"],
  ["not fired", left, "hide-narrow"]
];
function LastRun({ schedule }) {
  const { last } = schedule;
  if (!last) return /* @__PURE__ */ a4("span", { class: "muted", children: "none" });
  return /* @__PURE__ */ a4("a", { href: `runs/${last.runId}`, children: /* @__PURE__ */ a4(Time, { at: last.instant }) });
}
function left(schedule) {
  const parts = [
    [schedule.skipped, "skipped"],
    [schedule.missed, "missed"],
    [schedule.refused, "refused"]
  ];
  return parts.filter(([n3]) => n3 > 0).map(([n3, word]) => `${n3} ${word}`).join(", ");
}
function SchedulePage({ named }) {
  const query = useQuery(`schedule ${named}`, "queues", async (signal) => {
    const path2 = `v1/schedules/${named}`;
    const [schedule, preview, history2] = await Promise.all([
      get(path2, { signal }),
      get(`${path2}/preview`, { query: { count: INSTANTS }, signal }),
      get(`${path2}/history`, { query: { limit: ENTRIES }, signal })
    ]);
    return { schedule, preview, history: history2 };
  });
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Crumb, { name: "Schedules", to: "schedules" }),
    /* @__PURE__ */ a4(Read, { query, children: (whole) => /* @__PURE__ */ a4(Shown4, { whole }) })
  ] });
}
function Shown4({ whole }) {
  const { schedule, preview, history: history2 } = whole;
  const look2 = scheduleLook(schedule, clock.value);
  const { run } = schedule;
  const named = handle(schedule);
  return /* @__PURE__ */ a4($, { children: [
    /* @__PURE__ */ a4(Head, { title: schedule.name, look: look2, note: /* @__PURE__ */ a4("code", { children: visible(terms(schedule)) }) }),
    /* @__PURE__ */ a4("p", { class: `story t-${look2.tone}`, children: fate2(schedule) }),
    /* @__PURE__ */ a4("div", { class: "two", children: [
      /* @__PURE__ */ a4(
        Card,
        {
          title: "Next",
          note: run ? `submits ${visible(run.kind ?? "")} to ${visible(run.queue ?? "")}` : "",
          children: [
            /* @__PURE__ */ a4("ol", { class: "instants", children: [
              preview.instants.map((at) => /* @__PURE__ */ a4("li", { children: [
                /* @__PURE__ */ a4("code", { children: clockTime(ms(at), 0, false) }),
                " ",
                /* @__PURE__ */ a4("span", { class: "muted", children: relative(ms(at), clock.value) })
              ] }, at)),
              preview.instants.length === 0 && /* @__PURE__ */ a4("li", { class: "muted", children: "no instant follows" })
            ] }),
            /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: /* @__PURE__ */ a4(Cli, { line: command("schedules", "next", named) }) })
          ]
        }
      ),
      /* @__PURE__ */ a4(Card, { title: "To change it", children: /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: [
        /* @__PURE__ */ a4(Cli, { line: command("schedules", schedule.state === "paused" ? "resume" : "pause", named) }),
        /* @__PURE__ */ a4(Cli, { line: command("schedules", "trigger", named) })
      ] }) })
    ] }),
    /* @__PURE__ */ a4(Card, { title: "History", note: "changes and firings, the newest first", children: [
      /* @__PURE__ */ a4(Table, { items: history2.entries, by: ({ revision }) => revision, columns: ENTRY_COLUMNS }),
      /* @__PURE__ */ a4("div", { class: "pad-x pad-b", children: /* @__PURE__ */ a4(Cli, { line: command("schedules", "history", named) }) })
    ] }),
    /* @__PURE__ */ a4(Foot, { lines: [command("schedules", "show", named)] })
  ] });
}
function fate2(schedule) {
  const fired = schedule.fired === 1 ? "1 run" : `${schedule.fired} runs`;
  const not = left(schedule);
  const past = `It has submitted ${fired}${not ? `; ${not}` : ""}.`;
  const refusal4 = schedule.lastRefusal ? ` The last refusal was ${schedule.lastRefusal.error}.` : "";
  const state = {
    paused: "Paused: it fires nothing until it is resumed, and makes up for nothing. ",
    deleted: "Deleted; its runs stay. ",
    active: schedule.waiting > 0 ? `${schedule.waiting} instants have come and could not fire yet. ` : ""
  }[schedule.state];
  return state + past + refusal4;
}
var ENTRY_COLUMNS = [
  ["when", ({ at }) => /* @__PURE__ */ a4(Time, { at }), "nowrap"],
  ["by", ({ keyId }) => keyId ? visible(nameOf(keyId)) : /* @__PURE__ */ a4("span", { class: "muted", children: "time" })],
  ["state", ({ schedule }) => schedule.state],
  ["terms", ({ schedule }) => /* @__PURE__ */ a4("code", { children: visible(terms(schedule)) }), "hide-narrow"],
  ["fired", ({ schedule }) => schedule.fired, "num r"],
  ["last run", ({ schedule }) => /* @__PURE__ */ a4(LastRun, { schedule }), "nowrap"]
];

// src/parts/help.tsx
var KEYS = [
  ["/", "jump to a run, a worker, a label or a page"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  [".", "actions of this page"],
  ["g then o, r, i, q, s, e", "overview, runs, inbox, queues, schedules, effects"],
  ["t", "times: relative, local, UTC"],
  ["?", "this list"]
];
function HelpDialog({ close: close2 }) {
  const element = T2(null);
  A2(() => element.current?.showModal(), []);
  return /* @__PURE__ */ a4("dialog", { ref: element, onClose: close2, "aria-labelledby": "help-title", children: /* @__PURE__ */ a4("form", { method: "dialog", children: [
    /* @__PURE__ */ a4("h2", { id: "help-title", children: "Keys" }),
    /* @__PURE__ */ a4("table", { children: /* @__PURE__ */ a4("tbody", { children: KEYS.map(([key2, what]) => /* @__PURE__ */ a4("tr", { children: [
      /* @__PURE__ */ a4("td", { children: /* @__PURE__ */ a4("kbd", { children: key2 }) }),
      /* @__PURE__ */ a4("td", { children: what })
    ] }, key2)) }) }),
    /* @__PURE__ */ a4("p", { class: "muted", children: "No key acts without a dialog that says what will happen." }),
    /* @__PURE__ */ a4("footer", { children: /* @__PURE__ */ a4("button", { type: "submit", class: "btn primary", children: "Close" }) })
  ] }) });
}

// src/parts/jump.tsx
var PAGES2 = [
  ["overview", ""],
  ["runs", "runs"],
  ["inbox", "inbox"],
  ["queues", "queues"],
  ["schedules", "schedules"],
  ["effects", "effects"]
];
function targets(typed) {
  const text2 = typed.trim();
  if (text2 === "") return [];
  const found = [];
  if (/^(run|task)_[0-9A-Z]{10,}$/i.test(text2)) found.push({ words: `open ${text2}`, to: `runs/${text2}` });
  for (const [name, to] of PAGES2)
    if (name.startsWith(text2.toLowerCase())) found.push({ words: `page ${name}`, to });
  if (/^appr_/.test(text2)) found.push({ words: `open approval ${text2}`, to: `inbox/${text2}` });
  if (/^eff_/.test(text2)) found.push({ words: `open effect ${text2}`, to: `effects/${text2}` });
  const label = text2.match(/^([^:=\s]+)[:=](.+)$/);
  const value = encodeURIComponent(text2);
  if (label)
    found.push({
      words: `runs with the label ${label[1]}=${label[2]}`,
      to: `runs?label=${encodeURIComponent(`${label[1]}=${label[2]}`)}`
    });
  if (/^[A-Za-z0-9._:/-]+$/.test(text2)) {
    found.push({ words: `runs of the kind ${text2}`, to: `runs?kind=${value}` });
    found.push({ words: `runs of the worker ${text2}`, to: `runs?worker=${value}` });
    found.push({ words: `runs of the queue ${text2}`, to: `runs?queue=${value}` });
  }
  return found;
}
function Jump() {
  const typed = useSignal("");
  const at = useSignal(0);
  const found = targets(typed.value);
  const leave = (to) => {
    typed.value = "";
    document.activeElement?.blur();
    go(to);
  };
  const onKey = (event) => {
    if (event.key === "ArrowDown") at.value = Math.min(found.length - 1, at.value + 1);
    else if (event.key === "ArrowUp") at.value = Math.max(0, at.value - 1);
    else if (event.key === "Enter" && found[at.value]) leave(found[at.value].to);
    else if (event.key === "Escape") typed.value = "";
    else return;
    event.preventDefault();
  };
  return /* @__PURE__ */ a4("div", { class: "jump", children: [
    /* @__PURE__ */ a4(
      "svg",
      {
        width: "14",
        height: "14",
        viewBox: "0 0 14 14",
        fill: "none",
        stroke: "currentColor",
        "stroke-width": "1.500",
        "aria-hidden": "true",
        children: [
          /* @__PURE__ */ a4("circle", { cx: "6", cy: "6", r: "4.200" }),
          /* @__PURE__ */ a4("path", { d: "M9.200 9.200L13 13" })
        ]
      }
    ),
    /* @__PURE__ */ a4(
      "input",
      {
        id: "jump",
        type: "text",
        role: "combobox",
        "aria-label": "Jump to a run, worker, label or page",
        "aria-expanded": found.length > 0,
        "aria-controls": "jump-list",
        "aria-activedescendant": found.length > 0 ? `jump-${at.value}` : void 0,
        placeholder: "Run, worker, label or page",
        autocomplete: "off",
        spellcheck: false,
        value: typed.value,
        onInput: (event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        },
        onKeyDown: onKey,
        onBlur: () => {
          typed.value = "";
        }
      }
    ),
    /* @__PURE__ */ a4("kbd", { "aria-hidden": "true", children: "/" }),
    /* @__PURE__ */ a4("div", { id: "jump-list", role: "listbox", "aria-label": "Targets", hidden: found.length === 0, children: found.map((target, i4) => /* @__PURE__ */ a4(
      "div",
      {
        id: `jump-${i4}`,
        role: "option",
        "aria-selected": i4 === at.value,
        onMouseDown: () => leave(target.to),
        children: target.words
      },
      target.to + target.words
    )) })
  ] });
}

// src/theme.ts
var STORED3 = "tenure.theme";
var theme = y3("system");
function startTheme() {
  const stored = localStorage.getItem(STORED3);
  if (stored === "light" || stored === "dark") theme.value = stored;
  x2(() => {
    localStorage.setItem(STORED3, theme.value);
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
  });
}
var NEXT_THEME = { system: "light", light: "dark", dark: "system" };

// src/shell.tsx
function App() {
  if (person.value === null) return /* @__PURE__ */ a4(LoginPage, {});
  return /* @__PURE__ */ a4(Shell, {}, person.value.keyId);
}
var ICONS = {
  Overview: "M2 8h3l2-5 3 9 2-4h3",
  Runs: "M2 3.500h12M2 8h9M2 12.500h6",
  Inbox: "M2 9l2-6h8l2 6v4H2zM2 9h4l1 2h2l1-2h4",
  Queues: "M3 3h10v3H3zM3 8h10v1H3zM3 11h10v1H3z",
  Schedules: "M2.500 4h11v9.500h-11zM2.500 7h11M5 2v3M11 2v3",
  Effects: "M2 8h8M7 4.500l3.500 3.500L7 11.500M13 3v10"
};
function Shell() {
  const isHelpOpen = useSignal(false);
  A2(() => {
    void discoverAccess();
    void discoverNames();
    return startKeys({
      help: () => {
        isHelpOpen.value = true;
      }
    });
  }, []);
  const { isKnown: isKnown2, mayReadRuns, mayReadApprovals } = access.value;
  const page = mayReadRuns || mayReadApprovals ? /* @__PURE__ */ a4(Page, {}) : /* @__PURE__ */ a4(NoAccess, {});
  return /* @__PURE__ */ a4("div", { class: "shell", children: [
    /* @__PURE__ */ a4("button", { type: "button", class: "skip", onClick: () => document.getElementById("main")?.focus(), children: "Skip to the content" }),
    /* @__PURE__ */ a4(Rail, {}),
    /* @__PURE__ */ a4("div", { class: "page", children: [
      /* @__PURE__ */ a4(Header, {}),
      /* @__PURE__ */ a4("main", { id: "main", tabIndex: -1, children: isKnown2 && page })
    ] }),
    isHelpOpen.value && /* @__PURE__ */ a4(
      HelpDialog,
      {
        close: () => {
          isHelpOpen.value = false;
        }
      }
    )
  ] });
}
function NoAccess() {
  return /* @__PURE__ */ a4(
    Empty,
    {
      title: "This key may read neither runs nor approvals",
      lines: ["tenure keys create --role reader --name my-console"],
      children: "The console needs a key with the role reader or client, or approver for the Inbox alone."
    }
  );
}
function Page() {
  const [first, second, third] = place.value.path;
  if (!access.value.mayReadRuns) return /* @__PURE__ */ a4(InboxPage, { item: first === "inbox" ? second : void 0 });
  switch (first) {
    case void 0:
      return /* @__PURE__ */ a4(OverviewPage, {});
    case "runs":
      return second ? /* @__PURE__ */ a4(RunPage, { id: second, tab: third ?? "timeline" }, second) : /* @__PURE__ */ a4(RunsPage, {});
    case "inbox":
      return /* @__PURE__ */ a4(InboxPage, { item: second });
    case "queues":
      return /* @__PURE__ */ a4(QueuesPage, { name: second });
    case "schedules":
      return /* @__PURE__ */ a4(SchedulesPage, { name: second });
    case "effects":
      return /* @__PURE__ */ a4(EffectsPage, { id: second });
    default:
      return /* @__PURE__ */ a4(Empty, { title: "There is no such page", children: [
        "The address names no page of the console. ",
        /* @__PURE__ */ a4("a", { href: "./", children: "Go to the overview" }),
        "."
      ] });
  }
}
function Rail() {
  const { mayReadRuns, mayReadApprovals, mayReadSchedules, mayReadEffects } = access.value;
  const inbox = useQuery(
    `rail-inbox ${mayReadApprovals}`,
    "inbox",
    async (signal) => access.value.mayReadApprovals ? get("v1/approvals", { query: { state: "pending", limit: 100 }, signal }) : { approvals: [] }
  );
  const waiting2 = inbox.data.value?.approvals.length ?? 0;
  return /* @__PURE__ */ a4("nav", { class: "rail", "aria-label": "Pages", children: [
    /* @__PURE__ */ a4("a", { class: "brand", href: "./", children: [
      /* @__PURE__ */ a4(Brand, {}),
      /* @__PURE__ */ a4("span", { children: "Tenure" })
    ] }),
    mayReadRuns && /* @__PURE__ */ a4(Entry, { name: "Overview", to: "" }),
    mayReadRuns && /* @__PURE__ */ a4(Entry, { name: "Runs", to: "runs" }),
    mayReadApprovals && /* @__PURE__ */ a4(Entry, { name: "Inbox", to: "inbox", children: waiting2 > 0 && /* @__PURE__ */ a4("span", { class: "badge ask", children: [
      waiting2,
      /* @__PURE__ */ a4("span", { class: "vh", children: " waiting" })
    ] }) }),
    mayReadRuns && /* @__PURE__ */ a4("div", { class: "group", children: "Work" }),
    mayReadRuns && /* @__PURE__ */ a4(Entry, { name: "Queues", to: "queues" }),
    mayReadRuns && mayReadSchedules && /* @__PURE__ */ a4(Entry, { name: "Schedules", to: "schedules" }),
    mayReadRuns && mayReadEffects && /* @__PURE__ */ a4(Entry, { name: "Effects", to: "effects" })
  ] });
}
function Brand() {
  return /* @__PURE__ */ a4("svg", { width: "22", height: "22", viewBox: "0 0 22 22", "aria-hidden": "true", children: [
    /* @__PURE__ */ a4("rect", { class: "t-queue fill", x: "1", y: "4", width: "11", height: "5", rx: "2.500" }),
    /* @__PURE__ */ a4("rect", { class: "t-run fill", x: "9", y: "13", width: "12", height: "5", rx: "2.500" }),
    /* @__PURE__ */ a4("path", { class: "t-retry stroke", d: "M12 6.500h2.200c2.400 0-.9 9 0 9", "stroke-width": "1.800" })
  ] });
}
function Entry({ name, to, children }) {
  const isOn = (place.value.path[0] ?? "") === to;
  return /* @__PURE__ */ a4("a", { href: to === "" ? "./" : to, class: isOn ? "on" : "", "aria-current": isOn ? "page" : void 0, children: [
    /* @__PURE__ */ a4(
      "svg",
      {
        width: "16",
        height: "16",
        viewBox: "0 0 16 16",
        fill: "none",
        stroke: "currentColor",
        "stroke-width": "1.400",
        "aria-hidden": "true",
        children: /* @__PURE__ */ a4("path", { d: ICONS[name] })
      }
    ),
    name,
    children
  ] });
}
function Header() {
  const who = person.value;
  const { tenant, workspace } = access.value;
  const isUtc = timeStyle.value === "utc";
  return /* @__PURE__ */ a4("header", { class: "top", children: [
    access.value.mayReadRuns && /* @__PURE__ */ a4(Jump, {}),
    /* @__PURE__ */ a4("span", { class: "sp" }),
    /* @__PURE__ */ a4(Live, {}),
    /* @__PURE__ */ a4(
      "button",
      {
        type: "button",
        class: "plain num",
        title: "Switch between relative, local and UTC times (t)",
        onClick: () => {
          timeStyle.value = NEXT_STYLE[timeStyle.value];
        },
        children: [
          isUtc ? "UTC " : timeStyle.value === "local" ? "local " : "",
          clockTime(clock.value, clock.value, isUtc)
        ]
      }
    ),
    tenant && /* @__PURE__ */ a4("span", { class: "soft scope", children: [
      tenant,
      " / ",
      workspace
    ] }),
    /* @__PURE__ */ a4(
      "button",
      {
        type: "button",
        class: "plain",
        title: "Theme",
        onClick: () => {
          theme.value = NEXT_THEME[theme.value];
        },
        children: [
          /* @__PURE__ */ a4("span", { class: "vh", children: "Theme: " }),
          theme.value
        ]
      }
    ),
    who && /* @__PURE__ */ a4("span", { class: "who", children: [
      /* @__PURE__ */ a4("span", { class: "ava", "aria-hidden": "true", children: nameOf(who.keyId).slice(0, 1).toUpperCase() }),
      /* @__PURE__ */ a4("code", { title: `your key, ${who.keyId}`, children: visible(nameOf(who.keyId)) }),
      /* @__PURE__ */ a4("button", { type: "button", class: "link", onClick: () => end("You are logged out"), children: "log out" })
    ] })
  ] });
}
function Live() {
  if (isLive.value) {
    return /* @__PURE__ */ a4("span", { class: "live", children: [
      /* @__PURE__ */ a4("i", {}),
      "live"
    ] });
  }
  return /* @__PURE__ */ a4("span", { class: "live stale", role: "status", children: [
    /* @__PURE__ */ a4("i", {}),
    "as of ",
    clockTime(asOf.value, asOf.value, timeStyle.value === "utc"),
    ", connecting"
  ] });
}

// src/main.tsx
startTheme();
rememberTimeStyle(localStorage);
startClock();
restore();
startRouter();
markTitle();
Q(/* @__PURE__ */ a4(App, {}), document.body);
