'use strict';
const key = (row, column) => {
  const cell = row.cells[column];
  if (cell.dataset.value === undefined) return cell.textContent.toLowerCase();
  return cell.dataset.value === '' ? null : Number(cell.dataset.value);
};
for (const button of document.querySelectorAll('th button')) {
  button.addEventListener('click', () => {
    const head = button.parentElement, body = head.closest('table').tBodies[0];
    const column = head.cellIndex, rows = [...body.rows];
    const numbers = rows.some(row => typeof key(row, column) === 'number');
    const first = numbers ? 'descending' : 'ascending';
    const second = numbers ? 'ascending' : 'descending';
    const order = head.getAttribute('aria-sort') === first ? second : first;
    for (const other of head.parentElement.cells) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', order);
    const sign = order === 'ascending' ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : 0;
    });
    body.append(...rows);
  });
}
const large = document.getElementById('large');
for (const button of document.querySelectorAll('.zoom')) {
  button.addEventListener('click', () => {
    const [shown, small] = [large.firstElementChild, button.firstElementChild];
    [shown.src, shown.alt] = [small.src, small.alt];
    large.setAttribute('aria-label', small.alt);
    large.showModal();
  });
}
large.addEventListener('click', () => large.close());
